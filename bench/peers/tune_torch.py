"""The peer of `bench_step --adapter.kind=lora`: the same step with PEFT's LoRA."""

import peft
import torch

import stepping


def main():
    options = stepping.parse(__doc__, adapter=True)
    config = peft.LoraConfig(r=options.rank, lora_alpha=2 * options.rank, lora_dropout=0.0,
                             target_modules=options.targets.split(","))
    dtype = torch.bfloat16 if options.dtype == "bf16" else torch.float32
    model = peft.get_peft_model(stepping.make_model(options.student, dtype), config).train()
    optimizer = stepping.make_optimizer(model)
    ids, labels = stepping.random_batch(options, model.config.vocab_size)
    step = stepping.language_model_step(model, optimizer, ids, labels)
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    stepping.report_steps(options, step, ids.numel(), trained_parameters=trained)


if __name__ == "__main__":
    main()
