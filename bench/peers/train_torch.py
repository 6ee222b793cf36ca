"""The peer of `bench_step --student`: the same step in PyTorch and Transformers."""

import stepping


def main():
    options = stepping.parse(__doc__)
    model = stepping.make_model(options.student).train()
    optimizer = stepping.make_optimizer(model)
    ids, labels = stepping.random_batch(options, model.config.vocab_size)
    step = stepping.language_model_step(model, optimizer, ids, labels)
    stepping.report_steps(options, step, ids.numel())


if __name__ == "__main__":
    main()
