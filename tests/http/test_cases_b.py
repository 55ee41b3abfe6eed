"""Cases B: stop strings. (tests/cases/INDEX.md)"""

import harness


class CasesB(harness.ServerCase):
    SCRIPTS = {
        "@stop": ["Alpha", "\nUs", "er", ": leak", "tail"],
        "@alice": [" Alice", "!", "x"],
        "@nl": ["What", "?\n", "Next line"],
        "@mars": ["Mars", "?\n", "Next line"],
    }

    def check_stop(self, script, stop, text, word=None):
        """On both endpoints, whole and streamed; a word that is the end."""
        for ask in (self.chat, self.completion):
            for tokens in ({}, {"max_tokens": 50}):
                with self.subTest(ask.__name__, **tokens):
                    whole, streamed = self.both_forms(ask, script, stop=stop,
                                                      **tokens)
                    self.assertEqual(whole.text, text)
                    self.assertEqual("".join(streamed.deltas), text)
                    self.assertEqual(whole.finish, "stop")
                    self.assertEqual(whole.choices[0].get("stop_reason"), word)

    def test_b01_b02_a_stop_over_several_tokens(self):
        self.check_stop("@stop", ["\nUser:"], "Alpha", "\nUser:")

    def test_b01_a_stop_as_a_bare_string(self):
        self.check_stop("@stop", "\nUser:", "Alpha", "\nUser:")

    def test_b01_a_stop_at_the_first_token(self):
        self.check_stop("@stop", ["Al"], "", "Al")

    def test_b01_the_earliest_of_several(self):
        self.check_stop("@stop", ["leak", "User", ": l", "tail"], "Alpha\n",
                        "User")

    def test_b04_held_text_comes_once(self):
        self.check_stop("@alice", ["\n", "Alice:"], " Alice!x")

    def test_b04_a_stop_that_is_held_to_the_end(self):
        self.check_stop("@alice", ["!xyz"], " Alice!x")

    def test_b05_text_before_a_stop_in_one_token(self):
        self.check_stop("@nl", ["\n"], "What?", "\n")

    def test_b07_the_stop_that_matched_is_named(self):
        self.check_stop("@mars", ["?\n"], "Mars", "?\n")

    def test_empty_stops_are_none(self):
        for stop in ([], [""], "", None):
            with self.subTest(stop=stop):
                whole, _ = self.both_forms(self.completion, "@nl", stop=stop)
                self.assertEqual(whole.text, "What?\nNext line")

    def test_too_many_stops(self):
        reply = self.server.post("/v1/completions", {
            "prompt": "@nl", "stop": ["a"] * 17})
        self.refused(reply, param="stop")
