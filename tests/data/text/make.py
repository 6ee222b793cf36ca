"""Writes chat.json: conversations as transformers renders and encodes them.

usage: make.py TOKENIZERS   where TOKENIZERS holds smollm2/ and tinyllama/ (tokenizer.json and
tokenizer_config.json) and qwen2/ (vocab.json, merges.txt, tokenizer_config.json).
Needs transformers and jinja2. The Jinja sources are those that the models' tokenizer_config.json carry.
"""
import json
import sys
from pathlib import Path

import transformers
from transformers import PreTrainedTokenizerFast
from tokenizers import Tokenizer

folder = Path(sys.argv[1])
config = {name: json.loads((folder / name / "tokenizer_config.json").read_text()) for name in ("smollm2", "qwen2")}

QWEN25 = """{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0]['role'] == 'system' %}
        {{- messages[0]['content'] }}
    {%- else %}
        {{- 'You are Qwen, created by Alibaba Cloud. You are a helpful assistant.' }}
    {%- endif %}
    {{- '<|im_end|>\\n' }}
{%- else %}
    {%- if messages[0]['role'] == 'system' %}
        {{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}
    {%- else %}
        {{- '<|im_start|>system\\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant.<|im_end|>\\n' }}
    {%- endif %}
{%- endif %}
{%- for message in messages %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) or (message.role == "assistant") %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""
LLAMA2 = (
    "{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set system_message = "
    "messages[0]['content'] %}{% else %}{% set loop_messages = messages %}{% set system_message = false %}{% endif %}"
    "{% for message in loop_messages %}{% if loop.index0 == 0 and system_message != false %}{% set content = "
    "'<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + message['content'] %}{% else %}{% set content = "
    "message['content'] %}{% endif %}{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + "
    "' [/INST]' }}{% elif message['role'] == 'assistant' %}{{ ' ' + content.strip() + ' ' + eos_token }}{% endif %}"
    "{% endfor %}"
)
LLAMA3 = (
    "{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = '<|start_header_id|>' + "
    "message['role'] + '<|end_header_id|>\n\n'+ message['content'] | trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}"
    "{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}{% if add_generation_prompt %}"
    "{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"
)
MISTRAL = (
    "{%- if messages[0]['role'] == 'system' %}{%- set system_message = messages[0]['content'] %}{%- set loop_messages = "
    "messages[1:] %}{%- else %}{%- set loop_messages = messages %}{%- endif %}{{- bos_token }}{%- for message in "
    "loop_messages %}{%- if message['role'] == 'user' %}{%- if loop.first and system_message is defined %}"
    "{{- '[INST] ' + system_message + '\\n\\n' + message['content'] + ' [/INST]' }}{%- else %}"
    "{{- '[INST] ' + message['content'] + ' [/INST]' }}{%- endif %}{%- elif message['role'] == 'assistant' %}"
    "{{- ' ' + message['content'] + eos_token}}{%- endif %}{%- endfor %}"
)
ZEPHYR = (
    "{% for message in messages %}\n{% if message['role'] == 'user' %}\n{{ '<|user|>\n' + message['content'] + eos_token }}"
    "\n{% elif message['role'] == 'system' %}\n{{ '<|system|>\n' + message['content'] + eos_token }}\n"
    "{% elif message['role'] == 'assistant' %}\n{{ '<|assistant|>\n'  + message['content'] + eos_token }}\n{% endif %}\n"
    "{% if loop.last and add_generation_prompt %}\n{{ '<|assistant|>' }}\n{% endif %}\n{% endfor %}"
)

FAMILIES = [  # our name, source, template, bos, eos, tokenizer
    ("chatml", "smollm2", config["smollm2"]["chat_template"], "<|im_start|>", "<|im_end|>", "smollm2"),
    ("chatml", "qwen1.5", config["qwen2"]["chat_template"], None, "<|endoftext|>", "qwen2"),
    ("chatml", "qwen2.5", QWEN25, None, "<|im_end|>", None),
    ("llama2", "llama2-chat", LLAMA2, "<s>", "</s>", "tinyllama"),
    ("llama3", "llama3-instruct", LLAMA3, "<|begin_of_text|>", "<|eot_id|>", None),
    ("mistral", "mistral-instruct", MISTRAL, "<s>", "</s>", "tinyllama"),
    ("zephyr", "tinyllama-chat", ZEPHYR, "<s>", "</s>", "tinyllama"),
]
SYSTEM = {"role": "system", "content": "Answer in rhyme."}
USER = {"role": "user", "content": "What is the capital of France?\nAnd of Spain?"}
REPLY = {"role": "assistant", "content": "Paris, and Madrid. ☀️"}
MORE = {"role": "user", "content": "  Danke schön! 日本は? "}
LAST = {"role": "assistant", "content": "Tokyo.\n\nIt has 14 million people."}
CONVERSATIONS = [[USER, REPLY], [SYSTEM, USER, REPLY], [USER, REPLY, MORE, LAST], [SYSTEM, USER, REPLY, MORE, LAST]]


def load(name):
    if name == "qwen2":
        from transformers import Qwen2Tokenizer
        return Qwen2Tokenizer.from_pretrained(folder / name)
    return PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_file(str(folder / name / "tokenizer.json")))


out = {"transformers": transformers.__version__, "conversations": CONVERSATIONS, "families": []}
any_tokenizer = load("tinyllama")
for family, source, template, bos, eos, name in FAMILIES:
    tokenizer = load(name) if name else any_tokenizer
    entry = {"family": family, "source": source, "chat_template": template, "bos": bos, "eos": eos, "tokenizer": name,
             "cases": []}
    for messages in CONVERSATIONS:
        def render(part, generate):
            return transformers.utils.chat_template_utils.render_jinja_template(
                [part], chat_template=template, add_generation_prompt=generate, bos_token=bos, eos_token=eos)[0][0]
        case = {"prompt": render(messages[:-1], True), "text": render(messages, False)}
        if name:
            case["prompt_ids"] = tokenizer(case["prompt"], add_special_tokens=False)["input_ids"]
            case["ids"] = tokenizer(case["text"], add_special_tokens=False)["input_ids"]
        entry["cases"].append(case)
    out["families"].append(entry)
Path(__file__).with_name("chat.json").write_text(json.dumps(out, ensure_ascii=False, separators=(",", ":")) + "\n")
