#!/usr/bin/env python3
"""Makes the text and the reference ids of the tokenizer tests.

usage: make_token_goldens.py MODELS_DIR WORK_DIR [--llama-tokenize PROGRAM]
MODELS_DIR has the three GGUF files and all-MiniLM-L6-v2; WORK_DIR gets the
directories that tools/to_mlx.py makes of two of them.
Writes tests/goldens/text/lines.txt and a file of ids a model. The references:
the Hugging Face tokenizer of the tokenizer.json (SmolLM2, Qwen, MiniLM), and
transformers' own conversion of the GGUF (Gemma 3), which llama.cpp's
llama-tokenize has to agree with where it is given.
Format of *.ids, all numbers LEB128: for each line its count and its ids, with
special spellings parsed; then, for each line whose ids differ when they are
not, the line's index, count and ids.
needs: tokenizers, transformers, gguf, mlx, numpy
"""
import argparse
import os
import random
import subprocess
import sys

from gguf import GGUFReader
from tokenizers import Tokenizer

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.path.join(HERE, "..", "tests", "goldens", "text")
GGUF = {"smollm2": "SmolLM2-135M-Instruct.Q4_1.gguf",
        "qwen2.5-coder": "Qwen2.5-Coder-0.5B-Instruct.Q4_K_M.gguf",
        "gemma3": "gemma-3-270m.Q4_K_M.gguf"}
LINES = 2000

WORDS = ("the a river stone of and to light was in that it runs over under cold morning quietly map engine "
         "token cache we'll don't I'm they've it's CamelCase snake_case HTTPServer naïve façade Zürich coöperate "
         "résumé Ångström œuvre ﬁne straße 1st 2nd e.g. i.e. U.S.A. O'Brien rock'n'roll").split()
SCRIPTS = {
    "cjk": "今天天气很好我们去公园散步吧漢字とひらがなカタカナ混在東京都。、！？「」한국어문장입니다조선글",
    "cyrillic": "Съешь ещё этих мягких французских булок да выпей чаю",
    "greek": "Ξεσκεπάζω την ψυχοφθόρα βδελυγμία ἀρχὴ ᾧ ὕδωρ",
    "arabic": "السلام عليكم ورحمة الله ١٢٣ كتابٌ جميلٌ",
    "hebrew": "שלום עולם בְּרֵאשִׁית בָּרָא ־ מה שלומך",
    "indic": "नमस्ते दुनिया क्षत्रिय தமிழ் எழுத்து বাংলা ১২৩ తెలుగు",
    "thai": "สวัสดีชาวโลก น้ำใจ ๑๒๓ ກຂຄ မြန်မာ ភាសា",
    "other": "ქართული Հայերեն አማርኛ ᏣᎳᎩ ᠮᠣᠩᠭᠣᠯ ⵜⴰⵎⴰⵣⵉⵖⵜ ꦗꦮ",
}
EMOJI = ["😀", "🙂", "👍🏽", "👨‍👩‍👧‍👦", "🏳️‍🌈", "🇳🇴", "🧑🏿‍🚀", "❤️‍🔥", "1️⃣", "☕", "✈️", "🫠", "👩🏻‍❤️‍👨🏾", "🏴󠁧󠁢󠁳󠁣󠁴󠁿"]
MARKS = ["e\u0301", "a\u0308\u0323", "Z\u0351\u036b\u0343", "n\u0303", "\u0301", "o\u0302\u0301", "q\u0307\u0323",
         "\u1112\u1161\u11ab", "\u0915\u094d\u0937", "c\u0327", "i\u0307", "\u212b", "\ufb03", "\u1e9b\u0323"]
SPACES = [" ", "  ", "   ", "\t", "\t\t", " \t ", "\u00a0", "\u2003", "\u3000", "\u200b", "\u2009\u202f", "\r",
          "\x0b", "\x0c", "\u2028", "\u2029", "\u0085", "        ", " " * 17, "\ufeff", "\u00ad", "\u180e"]
CONTROLS = ["\x00", "\x01", "\x07", "\x08", "\x1b[31m", "\x1f", "\x7f", "\x80", "\x9f", "\u200e", "\u202e", "\u2066",
            "\ufffd", "\ufffe", "\uffff", "\ue000", "\U000f0000", "\U0010fffd", "\U0001d54f", "\u2060"]
SPECIALS = ["<|im_start|>", "<|im_end|>", "<|endoftext|>", "<s>", "</s>", "<bos>", "<eos>", "<unk>", "<pad>",
            "<start_of_turn>", "<end_of_turn>", "[CLS]", "[SEP]", "[MASK]", "[UNK]", "<|fim_prefix|>", "<tool_call>",
            "</tool_call>", "<0x0A>", "<0xE4>", "<|im_start|", "<im_start>", "< |im_start|>", "<|IM_START|>", "<repo_name>",
            "<jupyter_code>", "<table>", "</h1>", "[multimodal]", "<unused7>", "▁", "▁▁the", "Ġ", "Ġthe", "##ing", "<|",
            "|>", "<|endoftext|><|endoftext|>", "<mask>", "<|file_sep|>", "[INST]", "<<SYS>>"]
CODE = ["for (int i = 0; i < n; ++i) { sum += a[i] * b[i]; }", "def f(x: int) -> list[str]:", "    return [str(x)] * 3",
        "\tif err != nil {", "#include <vector>", "SELECT id, name FROM t WHERE a >= 10 AND b != 'x''y';",
        "const s = `a ${b} c`;", "x = {'key': [1, 2.5e-3, None], \"k2\": True}", "</div><p class=\"a-b\">&nbsp;</p>",
        "git commit -m \"it's done\" && make -j8 2>&1 | tee log.txt", "λ x → x ∘ f ⊕ ∑_{i=0}^{∞} i²", "fn main() -> Result<(), Box<dyn Error>> {",
        "%timeit np.einsum('bhqd,bhkd->bhqk', q, k)", "0xDEADBEEF 1_000_000 3.14159 1e-10 0b1011 12345678901234567890",
        "https://example.org/a/b?c=d&e=%20f#g user.name+tag@example.com", "a--b---c 12345 67 890 1,234,567.89 -0.5 +42 50%",
        "C:\\Users\\x\\n and \\t \\u00e9 \\\\", "$$\\frac{\\alpha}{\\beta} \\leq \\sqrt[3]{x^2}$$", "/* comment */ // TODO(x): y", "}}}))];;;,,,...!!!???---___***===~~~"]


def fragment(r):
    kind = r.randrange(12)
    if kind < 3:
        return " ".join(r.choice(WORDS) for _ in range(r.randint(1, 9)))
    if kind == 3:
        return r.choice(CODE)
    if kind < 6:
        text = SCRIPTS[r.choice(sorted(SCRIPTS))]
        start = r.randrange(len(text))
        return text[start:start + r.randint(1, 20)]
    if kind == 6:
        return "".join(r.choice(EMOJI) for _ in range(r.randint(1, 4)))
    if kind == 7:
        return "".join(r.choice(MARKS) for _ in range(r.randint(1, 5)))
    if kind == 8:
        return r.choice(SPACES)
    if kind == 9:
        return r.choice(SPECIALS)
    if kind == 10:
        return r.choice(CONTROLS)
    return "".join(chr(c) for c in (r.choice([r.randint(0x20, 0x7e), r.randint(0xa1, 0x24f), r.randint(0x2010, 0x2bff),
                                               r.randint(0x3041, 0x9fff), r.randint(0x1f300, 0x1faff)])
                                     for _ in range(r.randint(1, 8))))


def make_lines():
    """One line each, of valid UTF-8 and without a newline; some are whole lists of one kind."""
    r = random.Random(20250102)
    lines = ["", " ", "  ", "\t", "a", " a", "a ", "\r", "Hello world", " Hello world", "  Hello   world  "]
    for items in (SPACES, CONTROLS, SPECIALS, MARKS, EMOJI, CODE):
        lines += items + ["x" + item + "y" for item in items] + [" " + item + " " for item in items]
    lines += list(SCRIPTS.values()) + ["".join(SPECIALS), " ".join(SPECIALS), "".join(SPACES) + "end"]
    while len(lines) < LINES:
        lines.append("".join(fragment(r) + r.choice(["", "", " ", " ", "  "]) for _ in range(r.randint(1, 6))))
    assert len(lines) == LINES and not any("\n" in line for line in lines)
    return lines


def leb(n):
    out = bytearray()
    while n >= 0x80:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    return bytes(out + bytes([n]))


def write_ids(name, lines, tokenizer):
    tokenizer.no_truncation()
    tokenizer.no_padding()
    encode = lambda: [tokenizer.encode(line, add_special_tokens=False).ids for line in lines]
    parsed = encode()
    tokenizer.encode_special_tokens = True
    plain = encode()
    pack = lambda ids: leb(len(ids)) + b"".join(map(leb, ids))
    differing = [i for i in range(len(lines)) if parsed[i] != plain[i]]
    with open(os.path.join(OUT, name + ".ids"), "wb") as f:
        f.write(b"".join(map(pack, parsed)))
        f.write(b"".join(leb(i) + pack(plain[i]) for i in differing))
    print(f"{name}: {sum(map(len, parsed))} ids, {len(differing)} lines differ without special tokens")


def convert_gguf(path):
    """transformers' conversion of a GGUF's vocabulary (what AutoTokenizer's gguf_file does)."""
    from transformers.integrations.gguf.gguf_tokenizer_mapping import convert_gguf_tokenizer
    field = GGUFReader(path).get_field
    get = lambda name: field("tokenizer.ggml." + name).contents()
    vocabulary = {"tokenizer_type": get("model"), "pre_tokenizer_type": get("pre"), "tokens": get("tokens"),
                  "scores": get("scores"), "token_type": get("token_type")}
    return convert_gguf_tokenizer(field("general.architecture").contents(), vocabulary)[0]


def check_with_llama(program, gguf, lines, tokenizer):
    """The same ids from llama.cpp, on the lines as one text. U+2581 in the text is left out: llama.cpp
    takes it for a space, but not where it looks for runs of spaces."""
    text = "\n".join(line for line in lines if "\0" not in line and "\u2581" not in line)
    out = subprocess.run([program, "-m", gguf, "--ids", "--stdin", "--no-bos", "--no-escape", "--log-disable"],
                         input=text.encode(), capture_output=True, check=True).stdout.decode()
    theirs = [int(i) for i in out.strip().strip("[]").split(",")]
    ours = tokenizer.encode(text, add_special_tokens=False).ids
    assert ours == theirs, f"llama.cpp gives {len(theirs)} ids, transformers {len(ours)}"
    print(f"llama.cpp agrees on {len(ours)} ids")


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("models"), ap.add_argument("work"), ap.add_argument("--llama-tokenize")
    a = ap.parse_args()
    os.makedirs(OUT, exist_ok=True)
    lines = make_lines()
    with open(os.path.join(OUT, "lines.txt"), "w", encoding="utf-8", newline="") as f:
        f.write("".join(line + "\n" for line in lines))
    for name in ("smollm2", "qwen2.5-coder"):
        directory = os.path.join(a.work, name)
        if not os.path.exists(os.path.join(directory, "tokenizer.json")):
            subprocess.run([sys.executable, os.path.join(HERE, "to_mlx.py"), os.path.join(a.models, GGUF[name]),
                            directory, "--bits", "4"], check=True)
        write_ids(name, lines, Tokenizer.from_file(os.path.join(directory, "tokenizer.json")))
    write_ids("minilm", lines, Tokenizer.from_file(os.path.join(a.models, "all-MiniLM-L6-v2", "tokenizer.json")))
    gemma = convert_gguf(os.path.join(a.models, GGUF["gemma3"]))
    if a.llama_tokenize:
        check_with_llama(a.llama_tokenize, os.path.join(a.models, GGUF["gemma3"]), lines, gemma)
    write_ids("gemma3", lines, gemma)


if __name__ == "__main__":
    main()
