"""What the decoding peers share."""

import argparse

import reporting


def parse(description):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--model", required=True)
    parser.add_argument("--dtype", choices=["f32", "bf16"], default="f32")
    parser.add_argument("--ids", required=True, help="the prompt's ids, with commas between them")
    parser.add_argument("--new", type=int, default=96)
    reporting.add_options(parser)
    options = parser.parse_args()
    options.ids = [int(word) for word in options.ids.split(",")]
    return options


def report_runs(options, generate):
    chosen = []

    def run():
        chosen[:] = generate()

    reporting.print_reports(options, run, lambda report: {
        "tokens_per_s": options.new / report["min"], "ids": chosen})
