"""The tokenizer of the tiny models: bytes, one merge, two special tokens."""

from tokenizers import (AddedToken, Tokenizer, decoders, models,
                        pre_tokenizers)

ALPHABET = sorted(pre_tokenizers.ByteLevel.alphabet())
SPACE_T = "\u0120t"
SPECIAL = ["<|end|>", "<|start|>"]
TOKENS = ALPHABET + [SPACE_T] + SPECIAL  # id = index
END = TOKENS.index("<|end|>")


def build():
    """The tokenizer as a tokenizers.Tokenizer."""
    vocab = {token: i for i, token in enumerate(ALPHABET + [SPACE_T])}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[("\u0120", "t")]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(
        [AddedToken(t, special=True, normalized=False) for t in SPECIAL])
    return tokenizer
