"""Cases G: reasoning, of a template that opens or closes it. R-13."""

import harness

TURNS = ("{%- for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"
         "<|im_end|>\n{% endfor -%}"
         "{%- if add_generation_prompt %}<|im_start|>assistant\n")


def model_that_goes_on(after):
    """A template whose prompts end in the scripted token `after`."""
    return TURNS + after + "{% endif -%}"


class CasesG(harness.ServerCase):
    """The tags are tokens; the model opens its reasoning itself."""
    SCRIPTS = {
        "@think": ["<think>", "reason", "ing", "</think>", "answer"],
    }

    def test_reasoning_and_content(self):
        whole, streamed = self.both_forms(self.chat, "@think")
        self.assertEqual(whole.text, "answer")
        self.assertEqual(whole.message["reasoning_content"], "reasoning")
        self.assertEqual(whole.message["reasoning"], "reasoning")
        self.assertEqual(streamed.deltas, ["answer"])
        details = whole.usage["completion_tokens_details"]
        self.assertEqual(details["reasoning_tokens"], 3)  # with the first tag

    def test_cut_inside_the_reasoning(self):
        whole, _ = self.both_forms(self.chat, "@think", max_tokens=2)
        self.assertEqual(whole.text, "")
        self.assertEqual(whole.message["reasoning_content"], "reason")
        self.assertEqual(whole.finish, "length")

    def test_completions_are_raw(self):
        whole, _ = self.both_forms(self.completion, "@think")
        self.assertEqual(whole.text, "<think>reasoning</think>answer")

    def test_g05_raw_on_request(self):
        whole, streamed = self.both_forms(self.chat, "@think",
                                          reasoning_format="none")
        self.assertEqual(whole.text, "<think>reasoning</think>answer")
        self.assertNotIn("reasoning_content", whole.message)
        self.assertEqual("".join(streamed.deltas), whole.text)


class CasesGOneField(harness.ServerCase):
    SCRIPTS = {"@think": ["<think>", "reason", "ing", "</think>", "answer"]}
    ARGUMENTS = ("--reasoning-field", "reasoning")

    def test_k17_one_name_for_the_reasoning(self):
        whole, _ = self.both_forms(self.chat, "@think")
        self.assertEqual(whole.message["reasoning"], "reasoning")
        self.assertNotIn("reasoning_content", whole.message)


class CasesGOpened(harness.ServerCase):
    """The template opens the reasoning, the closing tag is plain text."""
    SCRIPTS = {"<think>": ["internal", " reasoning</thi", "nk>answer"]}
    TEMPLATE = model_that_goes_on("<think>")

    def test_g04_the_closing_tag_over_tokens(self):
        whole, streamed = self.both_forms(self.chat, "hello")
        self.assertEqual(whole.message["reasoning_content"],
                         "internal reasoning")
        self.assertEqual(whole.text, "answer")
        self.assertEqual(streamed.deltas, ["answer"])

    def test_g05_raw_has_the_tag_of_the_template(self):
        whole, streamed = self.both_forms(self.chat, "hello",
                                          reasoning_format="none")
        self.assertEqual(whole.text,
                         "<think>internal reasoning</think>answer")


class CasesGClosed(harness.ServerCase):
    """Thinking is off: the template opens and closes it."""
    SCRIPTS = {"</think>": ["just ", "content"]}
    TEMPLATE = model_that_goes_on("<think>\n\n</think>")

    def test_g01_a_closed_block_is_no_reasoning(self):
        whole, streamed = self.both_forms(self.chat, "hello")
        self.assertEqual(whole.text, "just content")
        self.assertNotIn("reasoning_content", whole.message)
        self.assertEqual(streamed.deltas, ["just ", "content"])


class CasesGTextTags(harness.ServerCase):
    """The real tags are tokens; their spelling in text is text."""
    SCRIPTS = {
        "@quote": ["<think>", "the tag `</th", "ink>` closes it. ok",
                   "</think>", "answer"],
    }

    def test_g02_the_tag_is_told_by_its_token(self):
        whole, _ = self.both_forms(self.chat, "@quote")
        self.assertEqual(whole.message["reasoning_content"],
                         "the tag `</think>` closes it. ok")
        self.assertEqual(whole.text, "answer")


class CasesGNeverOpened(harness.ServerCase):
    SCRIPTS = {"@plan": ["secret plan", "</think>", "visible"]}

    def test_r13_a_closing_tag_alone(self):
        whole, _ = self.both_forms(self.chat, "@plan")
        self.assertEqual(whole.text, "secret plan</think>visible")
        self.assertNotIn("reasoning_content", whole.message)
