#!/usr/bin/env python3
"""Writes the seeds of the text room's fuzz targets to tests/fuzz/corpus.

usage: make_seeds.py        needs: tokenizers
"""
import json
import os

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

CORPUS = os.path.join(os.path.dirname(__file__), "..", "..", "fuzz", "corpus")


def write(target, name, data):
    folder = os.path.join(CORPUS, target)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), "wb") as f:
        f.write(data)


def tokenizer_files():
    letters = {c: i for i, c in enumerate(["<unk>", "<s>", "</s>", "▁", "H", "e", "l", "o", "▁H", "<0x0A>"])}
    bpe = Tokenizer(models.BPE(letters, [("▁", "H")], unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    bpe.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Replace(" ", "▁")])
    bpe.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    bpe.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                     decoders.Strip(" ", 1, 0)])
    bpe.post_processor = processors.TemplateProcessing("<s> $A", special_tokens=[("<s>", 1)])
    bpe.add_special_tokens(["<s>", "</s>"])
    level = Tokenizer(models.BPE({c: i for i, c in enumerate("HeloĠ12")}, []))
    level.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(r"\p{N}{1,3}|\s+(?!\S)"), "isolated"), pre_tokenizers.ByteLevel(use_regex=True),
        pre_tokenizers.Digits(True), pre_tokenizers.Punctuation("contiguous")])
    level.decoder = decoders.ByteLevel()
    level.add_tokens([AddedToken("[CLS]", lstrip=True, rstrip=True, single_word=True)])
    piece = Tokenizer(models.WordPiece({"[UNK]": 0, "hello": 1, "##s": 2}, unk_token="[UNK]"))
    piece.normalizer = normalizers.BertNormalizer()
    piece.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    piece.decoder = decoders.WordPiece()
    piece.enable_padding(length=4)
    piece.enable_truncation(3)
    unigram = Tokenizer(models.Unigram([("<unk>", 0.0), ("</s>", -1.0), ("<", -2.0), ("H", -2.5)], 0, False))
    unigram.add_special_tokens(["</s>"])
    return {"bpe": bpe, "byte_level": level, "word_piece": piece, "unigram": unigram}


def main():
    for name, tokenizer in tokenizer_files().items():
        write("fuzz_tokenizer_json", name + ".json", tokenizer.to_str().encode())
    with open(os.path.join(CORPUS, "..", "..", "goldens", "text", "templates.json"), encoding="utf-8") as f:
        cases = json.load(f)["cases"]
    # Expressions in groups, then each whole template.
    expressions = [c["template"] for c in cases if c["name"].startswith("expression")]
    for i in range(0, len(expressions), 8):
        write("fuzz_chat_template", f"expressions_{i // 8}", "\n".join(expressions[i:i + 8]).encode())
    for i, case in enumerate(c for c in cases if not c["name"].startswith("expression")):
        context = json.dumps(case["context"], ensure_ascii=False)
        write("fuzz_chat_template", f"chat_{i}", (case["template"] + "\0" + context).encode())
    write("fuzz_detokenizer", "text", "\x02plain ab text é 中 😀 ab".encode())
    write("fuzz_detokenizer", "broken", b"\x00\xE4\xB8 \xC0\x80\xED\xA0\x80\xF4\x90\x80\x80\xFFa\xEF\xBF\xBD!b\xF0\x9F")
    write("fuzz_detokenizer", "tails", b"\x05\xF0\x9F\x98\x80\xF0\x9F\x98ab\xE1\x80\xE2\xF0\x91\x92\xF1\xBFA")
    call = '<tool_call>\n{"name": "get_wx", "arguments": {"city": "说"}}\n</tool_call>'
    for name, options, reply in [
            ("spelled", 0, "<think>\nr\n</think>\n\nanswer é <b"), ("tokens", 1, "\x01\nr </think>\x02\n\nanswer"),
            ("prefilled", 10, "inter\x03nal</thi\x03nk>\n" + call + "\n" + call + " Done"),
            ("raw", 4, "<think>r</think>\na</think>\x03b"), ("raw_calls", 15, "\nr\x02\n" + call + "\x01" + call),
            ("interleaved", 9, "\x01a\x02b\n" + call + "\n\x01c\x02"),
            ("cut", 8, 'a\n<tool_call>{"name":"f","arguments":{"ci'), ("opener", 8, "use <tool_call> or <tool_ca" + call),
            ("strings", 8, '<tool_call>{"name":"f","arguments":{"s":"\\"</tool_call><tool_call>"}}</tool_call>'),
            ("broken", 8, '<tool_call>{"name": "f}</tool_call> x ' + call + '"\n</tool_call>' + call)]:
        write("fuzz_reply_parser", name, bytes([options]) + reply.encode())
    for name, body in [
            ("object", '{"name": "f", "arguments": {"g": "说", "n": {"a": [1, -2.5e3, true, null]}}}'),
            ("string", '{"name":"f","arguments":"{\\"city\\": \\"Oslo\\"}"}'),
            ("list", '[{"name":"f"}, {"name":"get_wx","parameters":{}}]'),
            ("escapes", '{"\\u006eame":"\\u0066","arguments":{"a":"\\\\\\"}{","b":"[,"}}'),
            ("foreign", '{"name": "Bingo", "age": 30}'), ("bare", '{"name":"f","arguments":{city: 1}}')]:
        write("fuzz_tool_call", name, body.encode())


if __name__ == "__main__":
    main()
