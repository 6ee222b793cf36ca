"""The peer of `bench_step --teacher`: half cross-entropy, half a divergence from a frozen teacher, and on top of them
the losses on hidden states that --method names."""

import torch
from torch.nn import functional

import divergences
import stepping
import trajectories


def make_state_loss(method, student, teacher, length):
    """A module with the loss of both models' outputs, or None."""
    if method == "mta":
        alignment = trajectories.TrajectoryAlignment(student.config, teacher.config, length)
        alignment.loss = lambda ours, theirs: alignment(ours.hidden_states, theirs.hidden_states)
        return alignment
    if method == "fdd":
        dynamics = trajectories.FeatureDynamics(student.config, teacher.config)
        dynamics.loss = lambda ours, theirs: dynamics(ours.hidden_states, theirs.hidden_states,
                                                      student.get_output_embeddings(), teacher.get_output_embeddings())
        return dynamics
    return None


def main():
    options = stepping.parse(__doc__, teacher=True)
    divergence = divergences.DIVERGENCES[options.divergence]
    dtype = torch.bfloat16 if options.teacher_dtype == "bf16" else torch.float32
    teacher = stepping.make_model(options.teacher, dtype).eval().requires_grad_(False)
    student = stepping.make_model(options.student).train()
    states = make_state_loss(options.method, student, teacher, options.length)
    trained = torch.nn.ModuleList([student] + ([states] if states is not None else []))
    optimizer = stepping.make_optimizer(trained)
    ids, labels = stepping.random_batch(options, student.config.vocab_size)
    wanted = {"use_cache": False, "output_hidden_states": states is not None}

    def step():
        with torch.no_grad():
            theirs = teacher(input_ids=ids, **wanted)
            target = theirs.logits.float().flatten(0, 1)
            target = functional.log_softmax(target, dim=-1)
        ours = student(input_ids=ids, **wanted)
        logits = ours.logits.flatten(0, 1)
        cross_entropy = functional.cross_entropy(logits, labels.flatten())
        distance = divergence(target, functional.log_softmax(logits, dim=-1))
        loss = 0.5 * cross_entropy + 0.5 * distance
        if states is not None:
            loss = loss + states.loss(ours, theirs)
        loss.backward()
        stepping.update(trained, optimizer)
        return cross_entropy.item()

    stepping.report_steps(options, step, ids.numel())


if __name__ == "__main__":
    main()
