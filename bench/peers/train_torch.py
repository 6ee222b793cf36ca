"""The peer of `bench_step --student`: the same step in PyTorch and Transformers."""

import torch

import stepping


def main():
    options = stepping.parse(__doc__)
    model = stepping.make_model(options.student).train()
    optimizer = stepping.make_optimizer(model)
    ids, labels = stepping.random_batch(options, model.config.vocab_size)

    def step():
        logits = model(input_ids=ids, use_cache=False).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
        loss.backward()
        stepping.update(model, optimizer)
        return loss.item()

    stepping.report_steps(options, step, ids.numel())


if __name__ == "__main__":
    main()
