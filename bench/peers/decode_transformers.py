"""The peer of bench_decode: generation with a key-value cache in Transformers, padded on the left."""

import torch
from transformers import AutoModelForCausalLM

import decoding


def main():
    options = decoding.parse(__doc__)
    torch.set_num_threads(options.threads)
    dtype = torch.bfloat16 if options.dtype == "bf16" else torch.float32
    model = AutoModelForCausalLM.from_pretrained(options.model, dtype=dtype,
                                                 attn_implementation="sdpa").eval()
    width = max(map(len, options.prompts))
    pads = [width - len(ids) for ids in options.prompts]
    prompts = torch.tensor([[0] * pad + ids for pad, ids in zip(pads, options.prompts)])
    mask = torch.tensor([[0] * pad + [1] * (width - pad) for pad in pads])
    choice = {"do_sample": False} if options.temperature == 0 else {
        "do_sample": True, "temperature": options.temperature, "top_k": 0, "top_p": 1.0}

    def generate():
        with torch.inference_mode():
            ids = model.generate(prompts, attention_mask=mask, max_new_tokens=options.new,
                                 min_new_tokens=options.new, eos_token_id=None, pad_token_id=0,
                                 **choice)
        return ids[0, width:].tolist()

    decoding.report_runs(options, generate)


if __name__ == "__main__":
    main()
