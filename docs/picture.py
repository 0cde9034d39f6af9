"""Makes docs/report.png: the head of the page of the shipped runs, as a browser shows it.

    python docs/picture.py [--keep DIR]

Needs Chromium with its driver. The fits of the shipped runs take a minute or two the first time; `--keep`
names the folder in which they are looked for and left.
"""

import argparse
import base64
import shutil
import tempfile
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

from ullage.verbs.report import report

PICTURE = Path(__file__).with_name("report.png")
FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars")
WIDTH = 820
PARTS = ("#predict", "#boundaries")  # what is shown, one below the other


def browser() -> webdriver.Chrome:
    """A browser without a window."""
    options = webdriver.ChromeOptions()
    for flag in FLAGS:
        options.add_argument(flag)
    return webdriver.Chrome(service=Service(shutil.which("chromedriver")), options=options)


def picture(page: Path) -> bytes:
    """The page as a picture, with the sections that tell most."""
    driver = browser()
    try:
        screen = {"width": WIDTH, "height": 900, "deviceScaleFactor": 1.25, "mobile": False}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
        driver.get(f"file://{page}")
        driver.execute_script(
            "const kept = arguments[0];"
            "document.querySelectorAll('section, footer').forEach((one) => {"
            "  if (!kept.includes('#' + one.id)) one.remove(); });"
            "const extra = '#boundaries .scroll, #boundaries details, #boundaries figure ~ figure,'"
            "  + '#boundaries .panel:nth-child(n + 5)';"
            "document.querySelectorAll(extra).forEach((one) => one.remove());",
            list(PARTS),
        )
        height = driver.execute_script("return document.body.scrollHeight")
        clip = {"x": 0, "y": 0, "width": WIDTH, "height": height, "scale": 1}
        shot = driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})
    finally:
        driver.quit()
    return base64.b64decode(shot["data"])


def main() -> None:
    """Write the page of the shipped runs somewhere, and its picture here."""
    parser = argparse.ArgumentParser(description="Makes docs/report.png from the shipped runs.")
    parser.add_argument("--keep", type=Path, help="the folder that keeps the fits")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        report(shipped=True, model="nano", keep=chosen.keep or Path(folder) / "fits", report=page)
        PICTURE.write_bytes(picture(page))
    print(f"wrote {PICTURE}: {PICTURE.stat().st_size} bytes")


if __name__ == "__main__":
    main()
