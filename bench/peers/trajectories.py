"""The losses on hidden states of [mta] and [fdd] in plain PyTorch, with the program's defaults, and the spans that
bench_step makes up."""

import torch
from torch import nn
from torch.nn import functional

DSA_WEIGHT, HID_WEIGHT = 2.0, 0.2
TEMPERATURE = 5.0  # of FDD's trajectory


def key_layers(depth):
    """The ends of the second, third and last quarter, counted as hidden_states."""
    return [depth // 2, depth * 3 // 4, depth]


def invented_spans(length):
    """Words of one, one and two tokens in turn, and phrases of three tokens with one between them: as English text
    has them."""
    words, begin = [], 0
    while begin < length:
        end = min(begin + (2 if len(words) % 3 == 2 else 1), length)
        words.append((begin, end))
        begin = end
    phrases = [(begin, begin + 3) for begin in range(0, length - 2, 4)]
    return words, phrases


def membership(spans, length):
    matrix = torch.zeros(len(spans), length)
    for i, (begin, end) in enumerate(spans):
        matrix[i, begin:end] = 1
    return matrix


@torch.no_grad()
def incidence_weights(states, member):
    """[L] token weights of one sequence that sum to 1 over (token, span) incidences."""
    x = states / (states.std(dim=-1, keepdim=True) + 1e-5)
    scores = x @ x.T / states.shape[-1] ** 0.5
    scores.fill_diagonal_(float("-inf"))
    importance = scores.softmax(dim=-1).mean(dim=0)
    return importance / (importance * member.sum(dim=0)).sum()


def cosines(states, weights, member):
    """[spans, spans] between the weighted means of the spans' states."""
    weighted = member * weights
    means = weighted @ states / weighted.sum(dim=1, keepdim=True).clamp_min(1e-5)
    unit = functional.normalize(means, dim=-1, eps=1e-5)
    return unit @ unit.T


class TrajectoryAlignment(nn.Module):
    """MTA: words on the lowest of three key layers, phrases above."""

    def __init__(self, student, teacher, length):
        super().__init__()
        self.pairs = list(zip(key_layers(student.num_hidden_layers), key_layers(teacher.num_hidden_layers)))
        words, phrases = (membership(spans, length) for spans in invented_spans(length))
        self.members = [words] + [phrases] * (len(self.pairs) - 1)
        self.projectors = nn.ModuleList(nn.Linear(student.hidden_size, teacher.hidden_size) for _ in self.pairs)

    def forward(self, student_states, teacher_states):
        total = 0
        for (s, t), member, projector in zip(self.pairs, self.members, self.projectors):
            for ours, theirs in zip(student_states[s], teacher_states[t].float()):
                total = total + self.sample(ours, theirs, member, projector)
        return total / (len(self.pairs) * len(student_states[0]))

    def sample(self, ours, theirs, member, projector):
        own_weights, weights = incidence_weights(ours, member), incidence_weights(theirs, member)
        with torch.no_grad():
            target = cosines(theirs, weights, member)
            mass = (member * weights).sum(dim=1)
            pairs = mass[:, None] * mass[None, :]
            pairs.fill_diagonal_(0)
        squares = (cosines(ours, own_weights, member) - target) ** 2
        dsa = (pairs * squares).sum() / pairs.sum().clamp_min(1e-5)
        covered = member.sum(dim=0)
        rows = covered > 0
        distance = 1 - functional.cosine_similarity(projector(ours[rows]), theirs[rows], dim=-1, eps=1e-5)
        hid = ((covered * weights)[rows] * distance).sum()
        return DSA_WEIGHT * dsa + HID_WEIGHT * hid


class FeatureDynamics(nn.Module):
    """FDD: how next-token distributions develop over three key layers."""

    def __init__(self, student, teacher):
        super().__init__()
        self.pairs = list(zip(key_layers(student.num_hidden_layers), key_layers(teacher.num_hidden_layers)))

    def forward(self, student_states, teacher_states, student_head, teacher_head):
        trajectory, derivative, before = 0, 0, None
        for s, t in self.pairs:
            ours = student_head(student_states[s]).flatten(0, 1)
            with torch.no_grad():
                theirs = teacher_head(teacher_states[t]).float().flatten(0, 1)
            trajectory = trajectory + functional.kl_div(
                functional.log_softmax(ours / TEMPERATURE, dim=-1), functional.log_softmax(theirs / TEMPERATURE, dim=-1),
                reduction="batchmean", log_target=True)
            now = functional.log_softmax(ours, dim=-1), functional.log_softmax(theirs, dim=-1)
            if before is not None:
                changes = [a - b for a, b in zip(now, before)]
                derivative = derivative + (1 - functional.cosine_similarity(*changes, dim=-1, eps=1e-5)).mean()
            before = now
        return trajectory / len(self.pairs) + derivative / (len(self.pairs) - 1)
