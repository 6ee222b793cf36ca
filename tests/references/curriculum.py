"""DistiLLM-2's loss with its curriculum of alpha (arXiv 2503.07067, section 3.3), in numpy and double precision: writes
tests/data/curriculum/expected.json.

Two steps over the same pairs of answers, the student's logits changed in between. The first has alpha everywhere and
gives the reference gaps; in the second each answer has its own alpha. Gradients are finite differences."""

import json
import pathlib

import numpy

VOCAB, ALPHA, REJECTED_WEIGHT = 11, 0.1, 0.8
LENGTHS = {"chosen": [4, 1, 6], "rejected": [5, 2, 3]}


def log_softmax(logits):
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return shifted - numpy.log(numpy.exp(shifted).sum(axis=-1, keepdims=True))


def mixture(share, p, q):
    return numpy.logaddexp(numpy.log(share) + p, numpy.log(1 - share) + q)


def kl(p, q):
    return (numpy.exp(p) * (p - q)).sum(axis=-1)


def skewed(side, p, q, alpha, frozen):
    """Per token; `frozen` is the student of the detached mixture."""
    if side == "chosen":
        return kl(p, mixture(alpha, p, q))
    return kl(q, mixture(1 - alpha, p, frozen))


def gaps(side, p, q, labels):
    """How much likelier each answer is to its writer."""
    result, begin = [], 0
    for length in LENGTHS[side]:
        rows = numpy.arange(begin, begin + length)
        teacher, student = (numpy.exp(x[rows, labels[rows]].mean()) for x in (p, q))
        result.append(teacher - student if side == "chosen" else student - teacher)
        begin += length
    return numpy.array(result)


def curriculum(gap, reference):
    alpha = numpy.clip(1 - (1 - ALPHA) * reference / (gap + 1e-5), 0.01, ALPHA)
    return numpy.where(gap > 0, alpha, ALPHA)


def objective(side, teacher, student, alphas, frozen):
    p, q, held = log_softmax(teacher), log_softmax(student), log_softmax(frozen)
    weight = REJECTED_WEIGHT if side == "rejected" else 2 - REJECTED_WEIGHT
    total, begin = 0.0, 0
    for length, alpha in zip(LENGTHS[side], alphas):
        rows = slice(begin, begin + length)
        total += skewed(side, p[rows], q[rows], alpha, held[rows]).mean()
        begin += length
    return weight * total / len(alphas)


def gradient(side, teacher, student, alphas, step=1e-6):
    result = numpy.zeros_like(student)
    for at in numpy.ndindex(student.shape):
        values = []
        for sign in (1, -1):
            moved = student.copy()
            moved[at] += sign * step
            values.append(objective(side, teacher, moved, alphas, student))
        result[at] = (values[0] - values[1]) / (2 * step)
    return result


def main():
    random = numpy.random.default_rng(5)
    steps = [{}, {}]
    for side, lengths in LENGTHS.items():
        rows = sum(lengths)
        labels = random.integers(0, VOCAB, rows)
        writer = random.normal(size=(rows, VOCAB))
        writer[numpy.arange(rows), labels] += 1.5
        other = random.normal(size=(rows, VOCAB))
        teacher, first = (writer, other) if side == "chosen" else (other, writer)
        # The models come closer, each answer by another amount; one ends likelier to the other model.
        towards = numpy.repeat([0.2, 0.9, 0.55] if side == "chosen" else [0.01, 1.4, 0.5], lengths)[:, None]
        second = first + towards * (teacher - first)
        teacher, first, second = (x.astype(numpy.float32).astype(float) for x in (teacher, first, second))
        reference = gaps(side, log_softmax(teacher), log_softmax(first), labels).mean()
        for step, student in zip(steps, (first, second)):
            gap = gaps(side, log_softmax(teacher), log_softmax(student), labels)
            alphas = numpy.full(len(lengths), ALPHA) if student is first else curriculum(gap, reference)
            step[side] = {"lengths": lengths, "labels": labels.tolist(), "teacher": teacher.ravel().tolist(),
                          "student": student.ravel().tolist(), "gaps": gap.tolist(), "alphas": alphas.tolist(),
                          "objective": objective(side, teacher, student, alphas, student),
                          "gradient": gradient(side, teacher, student, alphas).ravel().tolist()}
    path = pathlib.Path(__file__).resolve().parent.parent / "data" / "curriculum" / "expected.json"
    path.write_text(json.dumps({"vocab": VOCAB, "alpha": ALPHA, "rejected_weight": REJECTED_WEIGHT, "steps": steps}))
    for step in steps:
        print({side: (step[side]["gaps"], step[side]["alphas"], step[side]["objective"]) for side in step})


if __name__ == "__main__":
    main()
