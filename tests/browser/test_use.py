"""The page by keyboard, on a telephone, and its live panel."""

import contextlib
import re

from page_case import PageCase, expect

FOCUS = """() => {
  const element = document.activeElement;
  const style = getComputedStyle(element);
  const ring = style.outlineStyle !== 'none' && style.outlineWidth !== '0px';
  const form = getComputedStyle(element.closest('form') ?? element);
  const around = element.id === 'input' && form.borderTopColor;
  return {
    name: element.ariaLabel ?? element.textContent.trim(),
    seen: ring || around === getComputedStyle(
        document.getElementById('send')).backgroundColor,
  };
}"""


class Keyboard(PageCase):
    def tab(self, count=1, key="Tab"):
        """The names of the elements that get the focus."""
        names = []
        for _ in range(count):
            self.page.keyboard.press(key)
            focus = self.page.evaluate(FOCUS)
            self.assertTrue(focus["seen"], focus["name"])
            names.append(focus["name"])
        return names

    def test_a_whole_conversation(self):
        keyboard = self.page.keyboard
        expect(self.input).to_be_focused()
        keyboard.type("one")
        keyboard.press("Shift+Enter")
        keyboard.type("@hello")
        expect(self.input).to_have_value("one\n@hello")
        keyboard.press("Enter")
        self.wait_for_answer()
        self.assertEqual(self.bodies[0]["messages"][0]["content"],
                         "one\n@hello")
        self.assertEqual(
            self.tab(6, "Shift+Tab"),
            ["Regenerate", "Copy", "Delete with its answer", "Copy", "Edit",
             "Live figures"])
        self.tab()
        keyboard.press("Enter")
        keyboard.press("Control+A")
        keyboard.type("@again")
        keyboard.press("Enter")
        expect(self.wait_for_answer()).to_contain_text("Not now.")

    def test_order_of_an_empty_page(self):
        self.page.locator(".skip").focus()
        self.assertEqual(
            self.tab(6),
            ["Hide chats", "New chat", "Settings", "Live figures", "Message",
             "Send (Enter)"])

    def test_skip_link(self):
        link = self.page.locator(".skip")
        expect(link).not_to_be_in_viewport()
        link.focus()
        expect(link).to_be_in_viewport(ratio=1)
        self.page.keyboard.press("Enter")
        expect(self.input).to_be_focused()

    def test_dialog(self):
        self.button("Settings").focus()
        self.page.keyboard.press("Enter")
        expect(self.page.locator("#setting-system")).to_be_focused()
        self.assertEqual(len(self.tab(9)), 9)
        self.page.keyboard.press("Escape")
        expect(self.page.locator("#settings")).not_to_be_visible()
        expect(self.button("Settings")).to_be_focused()

    def test_empty_messages_are_not_sent(self):
        self.input.press("Enter")
        self.send("  \n ")
        self.assertEqual(self.bodies, [])

    def test_the_reply_is_said(self):
        self.ask("@hello")
        expect(self.page.locator("#announcer")).to_have_text(
            "Reply: Good morning, miller.")


class Phone(PageCase):
    CONTEXT = {"viewport": {"width": 360, "height": 700}, "has_touch": True,
               "is_mobile": True}

    def check_width(self):
        widths = self.page.evaluate("""() => [
          document.documentElement, document.body,
          document.getElementById('scroller'),
        ].map((element) => element.scrollWidth)""")
        self.assertEqual(widths, [360] * 3)

    def test_fits(self):
        self.check_width()
        self.input.fill("@markdown")
        self.button("Send (Enter)").tap()
        answer = self.wait_for_answer()
        expect(answer.locator("pre")).to_be_attached()
        self.check_width()
        self.ask("x" * 300 + "@hello")
        self.check_width()
        box = self.page.locator("#send").bounding_box()
        self.assertLessEqual(box["x"] + box["width"], 360)
        self.assertLessEqual(box["y"] + box["height"], 700)
        self.assertGreaterEqual(min(box["width"], box["height"]), 40)
        self.button("Settings").tap()
        self.check_width()
        dialog = self.page.locator("#settings").bounding_box()
        self.assertLessEqual(dialog["x"] + dialog["width"], 360)
        expect(self.button("Save")).to_be_in_viewport(ratio=1)

    def test_sides_lie_above(self):
        self.ask("@hello")
        expect(self.page.locator("#chats")).not_to_be_visible()
        self.button("Chats").tap()
        expect(self.page.locator("#chats")).to_be_in_viewport(ratio=1)
        expect(self.button("Hide chats")).to_be_focused()
        expect(self.page.locator("main")).to_have_attribute("inert", "")
        self.page.keyboard.press("Escape")
        expect(self.page.locator("#chats")).not_to_be_visible()
        expect(self.button("Chats")).to_be_focused()
        self.button("Chats").tap()
        self.button("New chat").tap()
        expect(self.page.locator("#chats")).not_to_be_visible()
        expect(self.input).to_be_focused()
        self.button("Chats").tap()
        self.page.touchscreen.tap(350, 350)
        expect(self.page.locator("#chats")).not_to_be_visible()
        self.button("Live figures").tap()
        expect(self.page.locator("#panel dd").first).to_be_in_viewport()
        self.check_width()


class Panel(PageCase):
    def figure(self, name):
        return self.page.locator(f"#panel dt:text-is('{name}') + dd")

    def asked(self, count=0):
        """How often /stats was asked for since then."""
        return self.page.evaluate(
            "() => performance.getEntriesByType('resource')"
            ".filter(({name}) => name.endsWith('/stats')).length") - count

    def test_figures(self):
        expect(self.figure("Model")).to_have_text("llama")
        expect(self.figure("Context")).to_have_text("4,096")
        expect(self.figure("Layers")).to_have_text("1")
        expect(self.page.get_by_role("meter")).to_have_attribute(
            "aria-valuetext", re.compile(r"B of [\d.]+ GB"))
        before = self.counts()["generated"]
        self.ask("@hello")
        after = self.counts()["generated"]
        self.assertGreaterEqual(after, before + 3)
        expect(self.figure("Tokens written")).to_have_text(str(after))
        expect(self.figure("Queued")).to_have_text("0")

    def test_rows_and_speed_while_it_writes(self):
        body = {"prompt": "@long", "stream": True, **self.endless}
        with contextlib.ExitStack() as clients:
            for _ in range(4):
                connection, _ = self.server.open("POST", "/v1/completions",
                                                 body)
                clients.callback(connection.close)
            expect(self.figure("Writing")).to_have_text("4 of 8")
            expect(self.page.locator(".speed strong")).to_have_text(
                re.compile(r"[1-9]"))
            expect(self.page.get_by_role("meter")).not_to_have_attribute(
                "aria-valuenow", "0")
        expect(self.figure("Writing")).to_have_text("0 of 8")
        expect(self.page.locator(".plot .line")).to_have_attribute(
            "d", re.compile(r"^M[\d. ]+L"))
        expect(self.page.locator(".plot")).to_have_attribute(
            "aria-label", re.compile(r"at most [1-9]\d* tokens per second"))

    def test_asked_each_second_while_seen(self):
        self.page.wait_for_timeout(3500)
        self.assertIn(self.asked(), range(2, 8))
        self.button("Hide live figures").click()
        expect(self.button("Live figures")).to_be_focused()
        hidden = self.asked()
        self.page.wait_for_timeout(3500)
        self.assertLessEqual(self.asked(hidden), 1)
        self.button("Live figures").click()
        self.page.wait_for_timeout(1500)
        self.assertGreaterEqual(self.asked(hidden), 2)


class Looks(PageCase):
    # Text and what is behind it; WCAG asks for 4.5.
    OF_A_REPLY = [".bubble", ".figures", ".markdown a", ".markdown pre",
                  ".markdown td", "figcaption", "blockquote"]
    OF_THE_REST = ["#empty p", "#empty .note", "#new-chat", "#model", "summary",
                   "#panel dt", ".plot .top", ".chat"]
    CONTRAST = """(selector) => {
      const channels = (color) => color.match(/[\\d.]+/g).map(Number);
      const luminance = (color) => channels(color).slice(0, 3)
          .map((c) => c / 255)
          .map((c) => c <= .03928 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4)
          .reduce((sum, c, i) => sum + c * [.2126, .7152, .0722][i], 0);
      const element = document.querySelector(selector);
      let behind = element;
      while (channels(getComputedStyle(behind).backgroundColor)[3] === 0) {
        behind = behind.parentElement;
      }
      const [a, b] = [
        luminance(getComputedStyle(element).color),
        luminance(getComputedStyle(behind).backgroundColor),
      ].sort((a, b) => b - a);
      return (a + .05) / (b + .05);
    }"""

    def check_contrast(self):
        for script, selectors in (("@markdown", self.OF_A_REPLY),
                                  ("@think", self.OF_THE_REST)):
            self.button("New chat").click()
            self.ask(script)
            for selector in selectors:
                contrast = self.page.evaluate(self.CONTRAST, selector)
                self.assertGreaterEqual(contrast, 4.5, selector)

    def test_contrast_in_light(self):
        self.check_contrast()

    def test_contrast_in_dark(self):
        self.page.emulate_media(color_scheme="dark")
        self.check_contrast()

    def test_reduced_motion(self):
        animations = """() => document.getAnimations()
            .filter((each) => each.animationName).length"""
        self.send("@long")
        expect(self.answers).to_contain_text("w10 ")
        self.assertEqual(self.page.evaluate(animations), 1)
        self.page.emulate_media(reduced_motion="reduce")
        self.assertEqual(self.page.evaluate(animations), 0)
        self.input.press("Escape")
