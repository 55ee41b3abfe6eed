"""Markdown, settings, keys and failures on the page."""

import json

import harness
import scripts
from page_case import PageCase, expect


class Markdown(PageCase):
    def test_shown(self):
        text = self.ask("@markdown").locator("> .markdown")
        expect(text.get_by_role("heading")).to_have_text("The mill")
        expect(text.locator("strong")).to_have_text("quern")
        expect(text.locator("em")).to_have_text("hand mill")
        expect(text.locator("ol > li")).to_have_count(2)
        expect(text.locator("ol > li > ul > li")).to_have_text(
            ["slow", "simple"])
        expect(text.locator("td")).to_have_text(["saddle", "0.4"])
        expect(text.locator("td").last).to_have_css("text-align", "right")
        expect(text.locator("blockquote")).to_have_text("In pledge.")
        expect(text.locator("figcaption")).to_contain_text("python")
        expect(text.locator("pre")).to_contain_text("def grind(sacks):\n    r")
        link = text.get_by_role("link")
        expect(link).to_have_attribute("href", "https://quern.example/a?b=c")
        expect(link).to_have_attribute("target", "_blank")
        self.assertIn("noopener", link.get_attribute("rel"))

    def test_hostile_text_is_text(self):
        asked = []
        self.page.on("request", lambda r: asked.append(r.url))
        text = self.ask("@hostile").locator("> .markdown")
        expect(text).to_contain_text("<script>window.evil = 1</script>")
        expect(text).to_contain_text('<img src=x onerror="window.evil = 2">')
        expect(text.locator("pre")).to_contain_text("</code></pre><script>")
        expect(text.get_by_role("link")).to_have_text(["three", "four"])
        self.assertEqual(text.locator("script, img, b, iframe").count(), 0)
        text.get_by_text("one").first.click()
        self.assertIsNone(self.page.evaluate("() => window.evil ?? null"))
        self.assertTrue(all(u.startswith(self.server.url()) for u in asked))

    def test_what_the_user_writes_is_text(self):
        self.ask("*no* <b>markup</b> & @hello")
        expect(self.users).to_have_text("*no* <b>markup</b> & @hello")
        self.assertEqual(self.users.locator("b, em").count(), 0)

    def test_policy(self):
        policy = self.server.get("/").headers["Content-Security-Policy"]
        self.assertIn("default-src 'self'", policy)
        self.assertNotIn("unsafe", policy)
        self.expected.append("Content Security Policy")
        refused = self.page.evaluate("""() => new Promise((resolve) => {
          addEventListener('securitypolicyviolation',
                           (event) => resolve(event.effectiveDirective));
          const script = document.createElement('script');
          script.textContent = 'window.evil = 5';
          document.body.append(script);
        })""")
        self.assertEqual(refused, "script-src-elem")
        self.assertIsNone(self.page.evaluate("() => window.evil ?? null"))


class Settings(PageCase):
    VALUES = {"temperature": "0.5", "top_p": "0.9", "top_k": "7",
              "min_p": "0.05", "repetition_penalty": "1.1", "seed": "42",
              "max_tokens": "100"}

    def test_go_into_the_request(self):
        self.set_settings(system="Be brief.", enable_thinking="off",
                          **self.VALUES)
        self.ask("@hello")
        body = self.bodies[0]
        self.assertEqual({n: str(body[n]) for n in self.VALUES}, self.VALUES)
        self.assertEqual(body["messages"][0],
                         {"role": "system", "content": "Be brief."})
        self.assertEqual(body["chat_template_kwargs"],
                         {"enable_thinking": False})

    def test_kept_over_a_reload_and_cleared(self):
        self.set_settings(**self.VALUES)
        self.page.reload()
        self.ask("@hello")
        self.assertEqual(self.bodies[0]["seed"], 42)
        self.button("Settings").click()
        expect(self.page.locator("#setting-top_k")).to_have_value("7")
        self.button("Clear all").click()
        self.button("Save").click()
        self.ask("@again")
        self.assertLess(self.bodies[1].keys(), self.bodies[0].keys())
        self.assertNotIn("seed", self.bodies[1])

    def test_wrong_ones_are_told(self):
        self.set_settings(temperature="hot", seed="-1", top_p="0.5")
        field = self.page.locator("#setting-temperature")
        expect(field).to_be_focused()
        expect(field).to_have_attribute("aria-invalid", "true")
        expect(self.page.locator("#setting-temperature-error")).to_have_text(
            "A number from 0 to 5")
        expect(self.page.locator("#setting-seed-error")).to_be_visible()
        field.fill("1")
        self.page.locator("#setting-seed").fill("1")
        self.button("Save").click()
        expect(self.page.locator("#settings")).not_to_be_visible()

    def test_cancel_changes_nothing(self):
        self.button("Settings").click()
        self.page.locator("#setting-seed").fill("5")
        self.button("Cancel").click()
        self.ask("@hello")
        self.assertNotIn("seed", self.bodies[0])


class Keys(PageCase):
    ARGUMENTS = ("--api-key", "sesame")

    def setUp(self):
        super().setUp()
        self.expected.append("status of 401")

    def enter(self, key):
        expect(self.page.locator("#key")).to_be_visible()
        self.page.locator("#key-input").fill(key)
        self.page.locator("#key-input").press("Enter")

    def test_asked_for_and_kept_in_the_tab(self):
        self.enter("wrong")
        expect(self.page.locator("#key-wrong")).to_be_visible()
        self.enter("sesame")
        expect(self.page.locator("#model option")).to_have_count(1)
        expect(self.page.locator("#key")).not_to_be_visible()
        expect(self.ask("@hello")).to_contain_text("miller.")
        expect(self.page.locator("#panel dd").first).to_be_visible()
        self.page.reload()
        expect(self.page.locator("#model option")).to_have_count(1)
        self.assertIsNone(self.page.evaluate(
            "() => Object.values(localStorage).find((v) => "
            "v.includes('sesame')) ?? null"))

    def test_a_reply_without_key_can_be_retried(self):
        self.page.locator("#key").get_by_role("button", name="Cancel").click()
        answer = self.ask("@hello")
        expect(answer.get_by_role("alert")).to_be_visible()
        self.button("Enter API key").click()
        self.enter("sesame")
        self.button("Retry").click()
        expect(self.wait_for_answer()).to_contain_text("miller.")


class Failures(PageCase):
    CHAT = "**/v1/chat/completions"

    def setUp(self):
        super().setUp()
        self.expected += ["Failed to load resource", "net::ERR"]

    def answer_with(self, status, body, **headers):
        self.page.route(self.CHAT, lambda route: route.fulfill(
            status=status, headers=headers,
            body=body if isinstance(body, str) else json.dumps(body)))

    def test_an_error_of_the_server(self):
        alert = self.ask("x" * 5000 + " @hello").get_by_role("alert")
        expect(alert).to_contain_text("maximum context length is 4096 tokens")
        self.button("Edit").click()
        self.users.get_by_role("textbox").fill("@again")
        self.button("Send", self.users).click()
        expect(self.wait_for_answer()).to_contain_text("Not now.")

    def test_busy(self):
        self.answer_with(429, {"error": {"message": "The queue is full.",
                                         "type": "overloaded"}},
                         **{"Retry-After": "7"})
        answer = self.ask("@hello")
        expect(answer.get_by_role("alert")).to_contain_text(
            "The queue is full. Try again in 7 s.")
        self.page.unroute(self.CHAT)
        self.button("Retry").click()
        expect(self.wait_for_answer()).to_contain_text("miller.")
        expect(self.page.get_by_role("alert")).to_have_count(0)

    def test_an_answer_that_is_not_the_servers(self):
        self.answer_with(502, "<h1>Bad gateway</h1>")
        expect(self.ask("@hello").get_by_role("alert")).to_contain_text(
            "HTTP 502")

    def test_an_error_in_the_stream(self):
        chunk = {"choices": [{"index": 0, "delta": {"content": "Good"},
                              "finish_reason": None}]}
        error = {"error": {"message": "<b>out of memory</b>"}}
        self.answer_with(200, "".join(f"data: {json.dumps(part)}\n\n"
                                      for part in (chunk, error)),
                         **{"Content-Type": "text/event-stream"})
        answer = self.ask("@hello")
        expect(answer.locator("> .markdown")).to_have_text("Good")
        expect(answer.get_by_role("alert")).to_contain_text(
            "<b>out of memory</b>")

    def test_no_network(self):
        self.page.route(self.CHAT, lambda route: route.abort())
        answer = self.ask("@hello")
        expect(answer.get_by_role("alert")).to_contain_text("does not answer")
        self.page.unroute(self.CHAT)
        self.button("Retry").click()
        expect(self.wait_for_answer()).to_contain_text("miller.")

    def test_a_server_that_goes(self):
        server = harness.Server(self.model.path)
        try:
            self.open(server)
            self.send("@long")
            expect(self.answers).to_contain_text("w10 ")
        finally:
            server.process.kill()
            self.assertRaises(AssertionError, server.stop)  # no orderly end
        answer = self.wait_for_answer()
        expect(answer).to_contain_text("w0 w1 w2")
        expect(answer.get_by_role("alert")).to_be_visible()
        expect(self.page.locator("#panel .note")).to_contain_text(
            "does not answer")
