"""Cases C: characters split over tokens. (tests/cases/INDEX.md)"""

import threading

import harness

# Sequences that look like UTF-8 and are not (C-08).
ILL_FORMED = [bytes.fromhex(h) for h in (
    "C080", "C1BF", "E080AF", "E09FBF", "F08080AF", "F08FBFBF", "EDA080",
    "EDBFBF", "EDA0BDEDB982", "F4908080", "F5808080", "F7BFBFBF", "E4B8",
    "F09F99", "80", "FF", "FE80", "E4B8E4B8AD")]


class CasesC(harness.ServerCase):
    SCRIPTS = {
        "@plain": ["Good", " morning", "."],
        "@space": ["cut ", 0xE4, 0xB8, " space"],
        "@whole": ["cut, ", 0xE6, 0x9C, 0xAC, " end"],
        "@last": ["last ", 0xE7, 0xBB],
        "@emoji": ["hi ", 0xF0, 0x9F, 0x99, 0x82, " bye"],
        "@accent": ["ae", "\u0301", "xy"],
        "@flag": ["\U0001F3F3", "\uFE0F", "\u200D", "\U0001F308"],
        "@bad": ["bad ", 0xFF, " byte"],
        "@over": ["c080 ", 0xC0, 0x80, " e081 ", 0xE0, 0x81, 0xBF,
                  " eda0 ", 0xED, 0xA0, " f490 ", 0xF4, 0x90, " f7 ", 0xF7],
    }

    def check_deltas(self, script, deltas):
        """The text on both endpoints, and how a stream cuts it."""
        for ask in (self.chat, self.completion):
            with self.subTest(ask.__name__):
                whole, streamed = self.both_forms(ask, script)
                self.assertEqual(whole.text, "".join(deltas))
                self.assertEqual(streamed.deltas, deltas)
                self.assertEqual(whole.finish, "stop")

    def test_c01_a_tail_that_is_not_completed(self):
        for script, text in (("@space", "cut \ufffd space"),
                             ("@last", "last \ufffd")):
            for ask in (self.chat, self.completion):
                with self.subTest(script, ask=ask.__name__):
                    whole, streamed = self.both_forms(ask, script)
                    self.assertEqual(whole.text, text)
                    self.assertEqual("".join(streamed.deltas), text)

    def test_c01_a_tail_that_is_completed(self):
        self.check_deltas("@whole", ["cut, ", "\u672c", " end"])

    def test_c01_a_tail_cut_by_length(self):
        whole, streamed = self.both_forms(self.completion, "@emoji",
                                          max_tokens=3)
        self.assertEqual(whole.text, "hi \ufffd")
        self.assertEqual(whole.finish, "length")

    def test_c02_four_byte_tokens_are_one_delta(self):
        self.check_deltas("@emoji", ["hi ", "\U0001F642", " bye"])

    def test_c02_beside_other_rows(self):
        found, scripts = {}, ["@emoji", "@flag", "@whole", "@plain"] * 3

        def ask(row, script):
            found[row] = self.chat(script, stream=True).deltas

        threads = [threading.Thread(target=ask, args=pair)
                   for pair in enumerate(scripts)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        alone = {s: self.chat(s, stream=True).deltas for s in scripts}
        self.assertEqual(found, {row: alone[script]
                                 for row, script in enumerate(scripts)})

    def test_c04_deltas_are_code_points(self):
        self.check_deltas("@accent", ["ae", "\u0301", "xy"])
        self.check_deltas("@flag",
                          ["\U0001F3F3", "\uFE0F", "\u200D", "\U0001F308"])

    def test_c05_nothing_until_the_character_is_complete(self):
        ids = self.token_ids("\U0001F642")
        self.assertEqual(len(ids), 4)
        reply = self.server.post("/detokenize", {"tokens": ids})
        self.assertEqual(reply.json()["content"], "\U0001F642")
        streamed = self.completion("@emoji", stream=True, max_tokens=4)
        self.assertEqual(streamed.deltas[0], "hi ")
        self.assertEqual("".join(streamed.deltas), "hi \ufffd")

    def test_c07_a_stray_byte(self):
        self.check_deltas("@bad", ["bad ", "\ufffd", " byte"])

    def test_c08_generated_ill_formed_sequences(self):
        raw = (b"c080 \xc0\x80 e081 \xe0\x81\xbf eda0 \xed\xa0 f490 \xf4\x90"
               b" f7 \xf7")
        for ask in (self.chat, self.completion):
            whole, _ = self.both_forms(ask, "@over")
            self.assertEqual(whole.text, raw.decode("utf-8", "replace"))

    def test_c08_ill_formed_sequences_in_prompts_of_tokens(self):
        byte_id = self.byte_ids()
        for sequence in ILL_FORMED:
            with self.subTest(sequence.hex()):
                ids = [byte_id[b] for b in b"a" + sequence + b"b"]
                text = (b"a" + sequence + b"b").decode("utf-8", "replace")
                reply = self.server.post("/detokenize", {"tokens": ids})
                self.assertEqual(reply.json()["content"], text)
                whole, _ = self.both_forms(self.completion, ids, echo=True,
                                           max_tokens=0)
                self.assertEqual(whole.text, text)

    def byte_ids(self):
        """Byte -> its token: the alphabet is sorted, one character a byte."""
        symbols = harness.scripted_model.byte_symbols()
        order = sorted(symbols.values())
        return {byte: order.index(s) for byte, s in symbols.items()}
