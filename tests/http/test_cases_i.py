"""Cases I: log-probabilities. (tests/cases/INDEX.md)

The scripted model's own: with the identity as embedding and head rows of one
1, a norm of one and a width of W, the logit of a token's successor is
1 / sqrt(1 / W + eps) and that of the W - 1 others is 0.
"""

import math

import harness

EPS = 1e-5
FLOOR = -9999.0


class CasesI(harness.ServerCase):
    SCRIPTS = {"@plain": ["Good", " morning", "."],
               "@emoji": ["hi ", 0xF0, 0x9F, 0x99, 0x82, " bye"]}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        logit = 1 / math.sqrt(1 / cls.model.width + EPS)
        total = math.log(math.exp(logit) + cls.model.width - 1)
        cls.likely, cls.unlikely = logit - total, -total

    def check_logprob(self, value, expected):
        self.assertTrue(math.isfinite(value))
        self.assertAlmostEqual(value, expected, delta=1e-3)

    def test_i01_echo_with_logprobs(self):
        """Of the unmasked logits, whatever the sampling."""
        whole, _ = self.both_forms(self.completion, "correct horse",
                                   echo=True, logprobs=1, temperature=1,
                                   top_k=1, max_tokens=3, seed=0)
        self.assertTrue(whole.text.startswith("correct horse"))
        logprobs = whole.logprobs
        self.assertIsNone(logprobs["token_logprobs"][0])
        self.assertIsNone(logprobs["top_logprobs"][0])
        self.assertEqual("".join(logprobs["tokens"]), whole.text)
        for value in logprobs["token_logprobs"][1:13]:
            self.check_logprob(value, self.unlikely)
        offsets = [0]
        for token in logprobs["tokens"][:-1]:
            offsets.append(offsets[-1] + len(token))
        self.assertEqual(logprobs["text_offset"], offsets)
        # After most bytes the end token is the likely one; the prompt's own
        # stands beside it.
        top = logprobs["top_logprobs"][1]
        self.assertEqual(set(top), {"<|im_end|>", "o"})
        self.check_logprob(top["<|im_end|>"], self.likely)

    def test_i01_the_echo_alone(self):
        whole, _ = self.both_forms(self.completion, "@plainGood morning",
                                   echo=True, logprobs=0, max_tokens=0)
        self.assertEqual(whole.text, "@plainGood morning")
        self.assertEqual(whole.logprobs["tokens"],
                         ["@plain", "Good", " morning"])
        self.assertIsNone(whole.logprobs["token_logprobs"][0])
        for value in whole.logprobs["token_logprobs"][1:]:
            self.check_logprob(value, self.likely)
        self.assertEqual(whole.usage["completion_tokens"], 0)

    def test_legacy_logprobs(self):
        whole, _ = self.both_forms(self.completion, "@plain", logprobs=2)
        logprobs = whole.logprobs
        self.assertEqual(logprobs["tokens"], ["Good", " morning", "."])
        self.assertEqual(logprobs["text_offset"], [0, 4, 12])
        for token, value, top in zip(logprobs["tokens"],
                                     logprobs["token_logprobs"],
                                     logprobs["top_logprobs"], strict=True):
            self.check_logprob(value, self.likely)
            self.assertEqual(top[token], value)
            self.assertEqual(len(top), 2)

    def test_r16_chat_logprobs(self):
        for top in (0, 1, 20):
            with self.subTest(top_logprobs=top):
                whole, _ = self.both_forms(self.chat, "@plain", logprobs=True,
                                           top_logprobs=top)
                content = whole.logprobs["content"]
                self.assertEqual([e["token"] for e in content],
                                 ["Good", " morning", "."])
                for entry in content:
                    self.check_entry(entry, top)

    def check_entry(self, entry, top):
        self.check_logprob(entry["logprob"], self.likely)
        self.assertEqual(bytes(entry["bytes"]), entry["token"].encode())
        self.assertEqual(len(entry["top_logprobs"]), top)
        for rank, other in enumerate(entry["top_logprobs"]):
            self.assertLessEqual({"token", "logprob", "bytes"}, other.keys())
            if rank == 0:
                self.assertEqual(other["token"], entry["token"])
                self.assertEqual(other["logprob"], entry["logprob"])
            else:
                self.check_logprob(other["logprob"], self.unlikely)

    def test_r16_bytes_of_parts_of_characters(self):
        whole, _ = self.both_forms(self.chat, "@emoji", logprobs=True)
        entries = whole.logprobs["content"]
        self.assertEqual(len(entries), 6)
        self.assertEqual(bytes(b for e in entries for b in e["bytes"]),
                         "hi \U0001F642 bye".encode())

    def test_i02_banned_tokens_have_a_floor(self):
        """All but the best is banned: their probability is none."""
        good = self.model.ids["Good"]
        bias = {i: -100 for i in range(self.model.width) if i != good}
        whole, _ = self.both_forms(self.chat, "@plain", max_tokens=2,
                                   logprobs=True, top_logprobs=20,
                                   logit_bias=bias)
        for entry in whole.logprobs["content"]:
            self.assertEqual(entry["token"], "Good")
            for other in entry["top_logprobs"]:
                self.assertTrue(math.isfinite(other["logprob"]))
                self.assertGreaterEqual(other["logprob"], FLOOR)
        whole, _ = self.both_forms(self.completion, "@plain", max_tokens=2,
                                   logprobs=5, logit_bias=bias)
        for value in whole.logprobs["top_logprobs"][1].values():
            self.assertGreaterEqual(value, FLOOR)

    def test_no_logprobs_unless_asked(self):
        whole, _ = self.both_forms(self.chat, "@plain", logprobs=False)
        self.assertIsNone(whole.logprobs)
        for field in ("chat", "completion"):
            whole, _ = self.both_forms(getattr(self, field), "@plain")
            self.assertIsNone(whole.logprobs)

    def test_stops_take_their_logprobs_along(self):
        """As many entries as tokens of the text that was sent, at most."""
        whole, _ = self.both_forms(self.completion, "@plain", logprobs=0,
                                   stop=["."])
        self.assertEqual(whole.text, "Good morning")
        self.assertEqual(whole.logprobs["tokens"][:2], ["Good", " morning"])
