"""What the decoding peers share."""

import argparse

import reporting


def parse(description):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--model", required=True)
    parser.add_argument("--dtype", choices=["f32", "bf16"], default="f32")
    parser.add_argument("--ids", required=True, help='ids of the prompts: "1,2,3;4,5" are two')
    parser.add_argument("--new", type=int, default=96, help="tokens to add to each")
    parser.add_argument("--temperature", type=float, default=0, help="0 is greedy")
    reporting.add_options(parser)
    options = parser.parse_args()
    options.prompts = [[int(word) for word in ids.split(",")] for ids in options.ids.split(";")]
    return options


def report_runs(options, generate):
    """`generate` returns the first prompt's new ids."""
    chosen = []

    def run():
        chosen[:] = generate()

    def describe(report):
        rate = {"tokens_per_s": len(options.prompts) * options.new / report["min"]}
        return rate if options.temperature > 0 else rate | {"ids": chosen}

    reporting.print_reports(options, run, describe)
