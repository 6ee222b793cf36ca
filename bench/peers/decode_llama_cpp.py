"""The peer of bench_decode: the same greedy decoding in llama.cpp, from a GGUF file."""

import itertools

from llama_cpp import Llama

import decoding


def main():
    options = decoding.parse(__doc__)
    (prompt,) = options.prompts
    model = Llama(model_path=options.model, n_ctx=len(prompt) + options.new, n_batch=512,
                  n_threads=options.threads, n_threads_batch=options.threads, verbose=False)

    def generate():
        model.reset()
        return list(itertools.islice(model.generate(prompt, temp=0.0, repeat_penalty=1.0),
                                     options.new))

    decoding.report_runs(options, generate)


if __name__ == "__main__":
    main()
