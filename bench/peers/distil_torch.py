"""The peer of `bench_step --teacher`: half cross-entropy, half a divergence from a frozen
teacher."""

import torch
from torch.nn import functional

import divergences
import stepping


def main():
    options = stepping.parse(__doc__, teacher=True)
    divergence = divergences.DIVERGENCES[options.divergence]
    dtype = torch.bfloat16 if options.teacher_dtype == "bf16" else torch.float32
    teacher = stepping.make_model(options.teacher, dtype).eval().requires_grad_(False)
    student = stepping.make_model(options.student).train()
    optimizer = stepping.make_optimizer(student)
    ids, labels = stepping.random_batch(options, student.config.vocab_size)

    def step():
        with torch.no_grad():
            target = teacher(input_ids=ids, use_cache=False).logits.float().flatten(0, 1)
            target = functional.log_softmax(target, dim=-1)
        logits = student(input_ids=ids, use_cache=False).logits.flatten(0, 1)
        cross_entropy = functional.cross_entropy(logits, labels.flatten())
        distance = divergence(target, functional.log_softmax(logits, dim=-1))
        loss = 0.5 * cross_entropy + 0.5 * distance
        loss.backward()
        stepping.update(student, optimizer)
        return cross_entropy.item()

    stepping.report_steps(options, step, ids.numel())


if __name__ == "__main__":
    main()
