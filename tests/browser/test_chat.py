"""Conversations on the page."""

import json
import re

import scripts
from page_case import PageCase, expect


class Chat(PageCase):
    def test_a_reply(self):
        answer = self.ask("hi @hello")
        expect(self.users).to_have_text("hi @hello")
        expect(answer.locator(".markdown").last).to_have_text(
            "Good morning, miller.")
        expect(answer.locator(".figures")).to_contain_text("3 tokens")
        expect(self.input).to_have_value("")
        expect(self.input).to_be_focused()
        body = self.bodies[0]
        self.assertEqual(body["messages"],
                         [{"role": "user", "content": "hi @hello"}])
        self.assertIs(body["stream"], True)
        self.assertEqual(set(body), {"model", "messages", "stream",
                                     "stream_options"})

    def test_tokens_per_second(self):
        figures = self.ask("@long").locator(".figures")
        expect(figures).to_contain_text("1,500 tokens")
        expect(figures).to_contain_text(re.compile(r"\d+\.\d tokens/s"))

    def test_streams_until_escape(self):
        cancelled = self.counts()["cancelled"]
        self.send("@long")
        expect(self.answers).to_contain_text("w10 ")
        expect(self.page.locator("#send.running")).to_be_visible()
        seen = len(self.answers.inner_text())
        expect(self.answers).to_contain_text("w100 ")
        self.assertGreater(len(self.answers.inner_text()), seen)
        self.input.press("Escape")
        expect(self.answers).to_contain_text("Stopped.")
        text = self.answers.locator(".markdown").last.inner_text()
        self.assertTrue(text.startswith("w0 w1 w2 "))
        self.assertNotIn("w1499", text)
        self.wait_for(lambda counts: counts["cancelled"] == cancelled + 1)
        expect(self.ask("@again")).to_contain_text("Once more.")

    def test_stop_button(self):
        self.send("@long")
        expect(self.answers).to_contain_text("w10 ")
        self.button("Stop (Esc)").click()
        expect(self.answers).to_contain_text("Stopped.")
        self.wait_until_idle()

    def test_a_stopped_reply_is_part_of_what_follows(self):
        self.send("@long")
        expect(self.answers).to_contain_text("w10 ")
        self.input.press("Escape")
        self.ask("@again")
        self.assertEqual([m["role"] for m in self.bodies[1]["messages"]],
                         ["user", "assistant", "user"])
        self.assertTrue(
            self.bodies[1]["messages"][1]["content"].startswith("w0 w1 "))

    def test_second_turn(self):
        self.ask("@hello")
        expect(self.ask("@again")).to_contain_text("Once more.")
        self.assertEqual(self.bodies[1]["messages"], [
            {"role": "user", "content": "@hello"},
            {"role": "assistant", "content": "Good morning, miller."},
            {"role": "user", "content": "@again"}])

    def test_regenerate(self):
        self.ask("@hello")
        self.button("Regenerate").click()
        expect(self.wait_for_answer()).to_contain_text("Good morning, miller.")
        expect(self.answers).to_have_count(1)
        self.assertEqual(self.bodies[0], self.bodies[1])

    def test_edit_and_resend(self):
        self.ask("@hello")
        self.ask("@again")
        self.users.first.hover()
        self.button("Edit", self.users.first).click()
        area = self.users.first.get_by_role("textbox")
        expect(area).to_be_focused()
        area.fill("now @again")
        area.press("Enter")
        expect(self.wait_for_answer()).to_contain_text("Not now.")
        expect(self.users).to_have_text(["now @again"])
        self.assertEqual(self.bodies[2]["messages"],
                         [{"role": "user", "content": "now @again"}])

    def test_edit_and_leave(self):
        self.ask("@hello")
        self.button("Edit").click()
        self.users.get_by_role("textbox").press("Escape")
        expect(self.users).to_have_text("@hello")
        expect(self.button("Edit")).to_be_focused()
        self.assertEqual(len(self.bodies), 1)

    def test_delete_a_turn_and_undo(self):
        self.ask("@hello")
        self.ask("@again")
        self.button("Delete with its answer", self.users.first).click()
        expect(self.users).to_have_text(["@again"])
        expect(self.answers).to_have_count(1)
        self.button("Undo").click()
        expect(self.users).to_have_text(["@hello", "@again"])

    def test_regenerate_after_a_turn_is_gone(self):
        self.ask("@hello")
        self.ask("@again")
        self.button("Delete with its answer", self.users.first).click()
        expect(self.input).to_be_focused()
        self.button("Regenerate").click()
        expect(self.wait_for_answer()).to_contain_text("Not now.")
        self.assertEqual(self.bodies[2]["messages"],
                         [{"role": "user", "content": "@again"}])

    def test_copy(self):
        self.page.context.grant_permissions(
            ["clipboard-read", "clipboard-write"])
        answer = self.ask("@markdown")
        copied = "() => navigator.clipboard.readText()"
        self.button("Copy", answer.locator("footer")).click()
        expect(self.page.locator("#announcer")).to_have_text("Copied.")
        self.assertEqual(self.page.evaluate(copied).strip(),
                         scripts.MARKDOWN.strip())
        self.button("Copy", answer.locator("figure")).click()
        expect(answer.locator("figure use")).to_have_attribute("href",
                                                               "#icon-check")
        self.assertTrue(self.page.evaluate(copied).startswith("def grind"))

    def test_limit_of_tokens(self):
        self.set_settings(max_tokens="2")
        expect(self.ask("@hello")).to_contain_text("Cut off")


class Reasoning(PageCase):
    SCRIPTS = {
        "@think": ["<think>", "Let me ", "**consider**. ",
                   *(f"t{i} " for i in range(1000)), "</think>", "It is",
                   " four."],
        "@again#1": ["Once", " more."],
    }

    def test_folded_when_done(self):
        answer = self.ask("@think")
        details = answer.locator("details")
        expect(details).not_to_have_attribute("open", "")
        expect(details.locator("summary")).to_contain_text("Thought for")
        expect(answer.locator("> .markdown")).to_have_text("It is four.")
        details.locator("summary").click()
        expect(details.locator("strong")).to_have_text("consider")
        expect(details.locator("strong")).to_be_visible()

    def test_shown_while_it_comes(self):
        self.send("@think")
        details = self.answers.locator("details")
        expect(details.locator(".markdown")).to_contain_text("t10 ")
        expect(details).to_have_attribute("open", "")
        expect(details.locator("summary")).to_have_text("Thinking…")
        self.wait_for_answer()
        expect(details).not_to_have_attribute("open", "")
        expect(self.answers.locator("> .markdown")).to_have_text(
            "It is four.")

    def test_not_sent_back(self):
        self.ask("@think")
        self.ask("@again")
        self.assertEqual(self.bodies[1]["messages"][1],
                         {"role": "assistant", "content": "It is four."})


class Tools(PageCase):
    def test_a_call_and_its_result(self):
        self.set_settings(tools=json.dumps(scripts.TOOLS))
        answer = self.ask("@tool")
        expect(answer.locator(".call header")).to_have_text("get_wx")
        self.assertEqual(
            json.loads(answer.locator(".call pre").inner_text()),
            {"city": "Oslo"})
        expect(self.input).to_have_attribute("placeholder",
                                             "Result of get_wx")
        expect(self.ask("rainy")).to_contain_text("Rain in Oslo.")
        expect(self.page.locator(".tool")).to_contain_text("rainy")
        self.assertEqual(self.bodies[0]["tools"], scripts.TOOLS)
        call, result = self.bodies[1]["messages"][1:]
        self.assertEqual(call["tool_calls"][0]["function"]["name"], "get_wx")
        self.assertEqual(result, {
            "role": "tool", "content": "rainy",
            "tool_call_id": call["tool_calls"][0]["id"]})
        expect(self.input).to_have_attribute("placeholder", "Message")


class Chats(PageCase):
    @property
    def titles(self):
        return self.page.locator("#chat-list .chat")

    def test_several(self):
        self.ask("one @hello")
        self.button("New chat").click()
        expect(self.answers).to_have_count(0)
        expect(self.input).to_be_focused()
        self.ask("two @again")
        expect(self.titles).to_have_text(["two @again", "one @hello"])
        self.titles.last.click()
        expect(self.users).to_have_text(["one @hello"])
        self.assertEqual(len(self.bodies[1]["messages"]), 1)

    def test_kept_over_a_reload(self):
        answer = self.ask("@markdown")
        shown = answer.locator("> .markdown").inner_html()
        self.page.reload()
        expect(self.users).to_have_text(["@markdown"])
        # Rendered at once, it is what it was when it had come piece by piece.
        self.assertEqual(self.answers.locator("> .markdown").inner_html(),
                         shown)
        expect(self.answers.locator(".figures")).to_contain_text("tokens")

    def test_a_reload_keeps_what_came(self):
        self.send("@long")
        expect(self.answers).to_contain_text("w100 ")
        self.page.reload()
        expect(self.answers).to_contain_text("w100 ")
        self.wait_until_idle()
        expect(self.ask("@again")).to_contain_text("Once more.")

    def test_delete_and_undo(self):
        self.ask("one @hello")
        self.button("Delete chat: one @hello").click()
        expect(self.titles).to_have_count(0)
        expect(self.answers).to_have_count(0)
        self.button("Undo").click()
        expect(self.titles).to_have_text(["one @hello"])
        expect(self.users).to_have_text(["one @hello"])

    def test_deleted_while_it_answers(self):
        self.send("@long")
        expect(self.answers).to_contain_text("w10 ")
        self.button("Delete chat: @long").click()
        self.wait_until_idle()
        self.page.reload()
        expect(self.titles).to_have_count(0)

    def test_another_one_while_it_answers(self):
        self.send("first @long")
        expect(self.answers).to_contain_text("w10 ")
        self.button("New chat").click()
        expect(self.ask("second @hello")).to_contain_text("miller.")
        self.titles.last.click()
        expect(self.wait_for_answer()).to_contain_text("w1499")

    def test_a_full_storage(self):
        self.page.evaluate("""() => {
          for (let size = 1 << 22; size > 0; size >>= 1) {
            try {
              localStorage.setItem('x' + size, 'y'.repeat(size));
            } catch { /* as full as it gets */ }
          }
        }""")
        expect(self.ask("@hello")).to_contain_text("miller.")
        expect(self.page.locator(".toast")).to_contain_text("no room")
        expect(self.ask("@again")).to_contain_text("Once more.")
