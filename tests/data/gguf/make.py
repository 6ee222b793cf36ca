"""Makes tiny.gguf and expected.safetensors with the `gguf` package: a model of the llama architecture
with every storage kind that the importer reads. The values expected are those that the package's own
dequantisation gives, under Hugging Face names and in Hugging Face's row order.

pip install gguf safetensors numpy; python make.py
"""
import numpy as np
from gguf import GGMLQuantizationType as Q, GGUFWriter, TokenType
from gguf.quants import dequantize, quantize
from safetensors.numpy import save_file

LAYERS, HIDDEN, FFN, HEADS, KV_HEADS = 2, 64, 96, 4, 2
WIDTH = HIDDEN // HEADS
TOKENS = ["<|end|>", "<|user|>", "<tool>", "a", "b", "c", "Ġ", "é", "ab", "Ġa", "abc"]
TYPES = [TokenType.CONTROL, TokenType.CONTROL, TokenType.USER_DEFINED] + [TokenType.NORMAL] * 8
rng = np.random.default_rng(7)


def reorder(w, heads):
    """What llama.cpp's converter does to query and key rows."""
    return w.reshape(heads, 2, w.shape[0] // heads // 2, w.shape[1]).swapaxes(1, 2).reshape(w.shape)


def restore(w, heads):
    return w.reshape(heads, w.shape[0] // heads // 2, 2, w.shape[1]).swapaxes(1, 2).reshape(w.shape)


writer, expected = GGUFWriter("tiny.gguf", "llama"), {}


def add(name, hf_name, shape, kind, heads=0):
    w = rng.normal(0, 1, shape).astype(np.float32)
    if heads:
        w = reorder(w, heads)
    data = quantize(w, kind)
    values = dequantize(data, kind).reshape(shape).astype(np.float32)
    writer.add_tensor(name, data, raw_dtype=kind)
    expected[hf_name] = np.ascontiguousarray(restore(values, heads) if heads else values)


writer.add_block_count(LAYERS)
writer.add_context_length(128)
writer.add_embedding_length(HIDDEN)
writer.add_feed_forward_length(FFN)
writer.add_head_count(HEADS)
writer.add_head_count_kv(KV_HEADS)
writer.add_rope_dimension_count(WIDTH)
writer.add_rope_freq_base(50000.0)
writer.add_layer_norm_rms_eps(1e-6)
writer.add_tokenizer_model("gpt2")
writer.add_tokenizer_pre("smollm")
writer.add_token_list(TOKENS)
writer.add_token_types(TYPES)
writer.add_token_merges(["a b", "Ġ a", "ab c"])
writer.add_bos_token_id(1)
writer.add_eos_token_id(0)
writer.add_add_bos_token(False)
writer.add_chat_template("{{ 'é' }}\n")
add("token_embd.weight", "model.embed_tokens.weight", (len(TOKENS), HIDDEN), Q.Q8_0)
add("output_norm.weight", "model.norm.weight", (HIDDEN,), Q.F32)
add("output.weight", "lm_head.weight", (len(TOKENS), HIDDEN), Q.BF16)
kv = KV_HEADS * WIDTH
for i in range(LAYERS):
    g, h = f"blk.{i}.", f"model.layers.{i}."
    add(g + "attn_norm.weight", h + "input_layernorm.weight", (HIDDEN,), Q.F32)
    add(g + "ffn_norm.weight", h + "post_attention_layernorm.weight", (HIDDEN,), Q.F32)
    add(g + "attn_q.weight", h + "self_attn.q_proj.weight", (HIDDEN, HIDDEN), Q.Q4_1, HEADS)
    add(g + "attn_k.weight", h + "self_attn.k_proj.weight", (kv, HIDDEN), Q.Q4_0, KV_HEADS)
    add(g + "attn_v.weight", h + "self_attn.v_proj.weight", (kv, HIDDEN), Q.F16)
    add(g + "attn_output.weight", h + "self_attn.o_proj.weight", (HIDDEN, HIDDEN), Q.Q4_0)
    add(g + "ffn_gate.weight", h + "mlp.gate_proj.weight", (FFN, HIDDEN), Q.Q4_1)
    add(g + "ffn_up.weight", h + "mlp.up_proj.weight", (FFN, HIDDEN), Q.Q8_0)
    add(g + "ffn_down.weight", h + "mlp.down_proj.weight", (HIDDEN, FFN), Q.F32)
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
save_file(expected, "expected.safetensors", metadata={"format": "pt"})
