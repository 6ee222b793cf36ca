"""The peer of bench_decode: greedy generation with a key-value cache in Transformers."""

import torch
from transformers import AutoModelForCausalLM

import decoding


def main():
    options = decoding.parse(__doc__)
    torch.set_num_threads(options.threads)
    dtype = torch.bfloat16 if options.dtype == "bf16" else torch.float32
    model = AutoModelForCausalLM.from_pretrained(options.model, dtype=dtype,
                                                 attn_implementation="sdpa").eval()
    prompt = torch.tensor([options.ids])

    def generate():
        with torch.inference_mode():
            ids = model.generate(prompt, attention_mask=torch.ones_like(prompt), do_sample=False,
                                 max_new_tokens=options.new, min_new_tokens=options.new,
                                 eos_token_id=None, pad_token_id=0)
        return ids[0, len(options.ids):].tolist()

    decoding.report_runs(options, generate)


if __name__ == "__main__":
    main()
