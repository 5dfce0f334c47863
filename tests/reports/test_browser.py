"""The page in a real browser: no errors, no requests, no overflow, and text that can be read."""

import json
import os
import shutil

import pytest

selenium = pytest.importorskip("selenium", reason="selenium is not installed")
webdriver = pytest.importorskip("selenium.webdriver")

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
OPTIONS = ("--headless=new", "--disable-gpu", "--disable-dev-shm-usage")

# Ratio of contrast (WCAG) between each piece of text and what lies behind it, if below 4.5.
CONTRAST = """
const channel = v => { v /= 255; return v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; };
const rgba = c => [...c.match(/[\\d.]+/g).map(Number), 1];
const light = c => .2126 * channel(c[0]) + .7152 * channel(c[1]) + .0722 * channel(c[2]);
const behind = e => {
  for (; e; e = e.parentElement) {
    const c = rgba(getComputedStyle(e).backgroundColor);
    if (c[3] > 0) return c;
  }
  return [255, 255, 255, 1];
};
const poor = []; let seen = 0;
for (const e of document.querySelectorAll("body *")) {
  if (![...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim())) continue;
  const style = getComputedStyle(e), drawn = e.namespaceURI.endsWith("svg");
  const [a, b] = [rgba(drawn ? style.fill : style.color), behind(e)].map(light);
  const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
  seen += 1;
  if (ratio < 4.5) poor.push([e.tagName, e.textContent.trim().slice(0, 40), ratio]);
}
return [seen, poor];
"""


@pytest.fixture(scope="module")
def browser():
    binary = next(filter(None, map(shutil.which, BROWSERS)), None)
    driver = shutil.which("chromedriver")
    if binary is None or driver is None:
        pytest.skip("there is no Chromium with its chromedriver here")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for option in OPTIONS:
        options.add_argument(option)
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        options.add_argument("--no-sandbox")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    service = webdriver.ChromeService(executable_path=driver)
    opened = webdriver.Chrome(options=options, service=service)
    yield opened
    opened.quit()


@pytest.fixture(scope="module")
def address(nasty_report, tmp_path_factory):
    return nasty_report.save(tmp_path_factory.mktemp("page") / "page.html").as_uri()


def show(browser, address, width=1200, scheme="light"):
    size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500}
    feature = {"name": "prefers-color-scheme", "value": scheme}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
    browser.get(address)


def test_the_page_opens_without_errors_and_requests(browser, address):
    browser.get_log("performance")
    show(browser, address)
    assert browser.get_log("browser") == []
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = [
        event["params"]["request"]["url"]
        for event in events
        if event["method"] == "Network.requestWillBeSent"
    ]
    assert {url for url in asked if not url.startswith("data:")} == {address}


@pytest.mark.parametrize("width", [390, 768, 1200])
def test_nothing_sticks_out_at_the_side(browser, address, width):
    show(browser, address, width)
    script = "return [document.documentElement.scrollWidth, innerWidth]"
    wide, inner = browser.execute_script(script)
    assert wide <= inner == width


def test_pictures_fill_their_place(browser, address):
    show(browser, address, 390)
    widths = browser.execute_script(
        "return [...document.querySelectorAll('img')].map(s => s.getBoundingClientRect().width)"
    )
    assert len(widths) >= 6
    assert min(widths) > 300


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read(browser, address, scheme):
    show(browser, address, scheme=scheme)
    seen, poor = browser.execute_script(CONTRAST)
    assert seen > 100
    assert poor == []
    paper = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert (paper == "rgb(255, 255, 255)") == (scheme == "light")


def test_names_are_shown_and_never_run(browser, address):
    show(browser, address)
    # an alert that is open would make this fail
    words = browser.execute_script("return document.body.textContent")
    for name in ("<script>alert(1)</script>", "$x_1$", "</text></svg><img", "<b>h</b>"):
        assert name in words
    assert browser.execute_script("return document.querySelectorAll('script').length") == 0
