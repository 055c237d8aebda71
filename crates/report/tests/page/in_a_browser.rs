//! Tests the page as a user sees it: with a mouse, with keys, with a screen reader.

use std::path::PathBuf;

use serde_json::Value;
use tempfile::TempDir;

use crate::browser::Browser;
use crate::made;

/// Writes the page of a trace to a file.
fn written(trace: &[u8]) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("page.html");
    std::fs::write(&path, made::report(trace).to_html("studio.ptrace")).expect("written");
    (folder, path)
}

/// Returns the focused element: its tag and its text.
const FOCUS: &str = "(() => { const at = document.activeElement; \
    return at.tagName + ' ' + (at.getAttribute('aria-label') || at.textContent).trim().slice(0, 40) })()";

const SAID: &str = "document.getElementById('said').textContent";

#[test]
fn there_are_no_complaints_in_light_or_dark_wide_or_narrow() {
    let Some(mut browser) = Browser::start() else { return };
    for trace in [made::trace(60), made::eventful()] {
        let (_folder, page) = written(&trace);
        for (width, scheme) in [(1280, "light"), (1280, "dark"), (400, "light"), (400, "dark")] {
            browser.screen(width, scheme);
            browser.open(&page);
            assert_eq!(browser.complaints(), Vec::<String>::new());
            let wide = browser.value("document.documentElement.scrollWidth");
            assert!(
                wide.as_u64().is_some_and(|wide| wide <= u64::from(width)),
                "{wide} of {width}"
            );
            if width == 1280 {
                assert_eq!(browser.value(SIDEWAYS), serde_json::json!([]), "scrolls sideways");
            }
            let worst = browser.value(CONTRAST);
            let (ratio, what) = (worst[0].as_f64().expect("a ratio"), &worst[1]);
            assert!(ratio >= 4.5, "{scheme}: contrast {ratio} of {what}");
        }
    }
}

/// Returns the tables of promises that are wider than their place.
const SIDEWAYS: &str = "[...document.querySelectorAll('section[aria-labelledby=promises] .wide')]
  .filter((one) => one.scrollWidth > one.clientWidth + 1)
  .map((one) => one.getAttribute('aria-label'))";

/// Returns the least contrast of any text with its background (WCAG 2.2, 1.4.3), and the text.
const CONTRAST: &str = "(() => {
  const canvas = new OffscreenCanvas(1, 1).getContext('2d', { willReadFrequently: true });
  const rgba = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = ([r, g, b]) => {
    const part = (v) => ((v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  };
  let worst = [99, ''];
  for (const one of document.querySelectorAll('body *')) {
    const own = [...one.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!own || one.closest('script,style') || !one.getClientRects().length) continue;
    const style = getComputedStyle(one);
    const ink = rgba(one.namespaceURI.endsWith('svg') ? style.fill : style.color);
    let ground = null;
    for (let at = one; at && !ground; at = at.parentElement) {
      const colour = rgba(getComputedStyle(at).backgroundColor);
      if (colour[3] === 255) ground = colour;
    }
    const [a, b] = [light(ink), light(ground || rgba('Canvas'))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < worst[0]) worst = [ratio, one.tagName + '.' + one.getAttribute('class') + ' ' + one.textContent.slice(0, 30)];
  }
  return worst;
})()";

#[test]
fn keys_reach_everything_and_zoom() {
    let Some(mut browser) = Browser::start() else { return };
    let (_folder, page) = written(&made::trace(100));
    browser.screen(1280, "light");
    browser.open(&page);
    let mut seen = Vec::new();
    for _ in 0..60 {
        browser.press("Tab");
        let focus = browser.value(FOCUS).as_str().unwrap_or_default().to_owned();
        let outline = "(() => { const style = getComputedStyle(document.activeElement); \
                       return style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2 })()";
        assert_eq!(browser.value(outline), Value::Bool(true), "no focus is seen on {focus}");
        seen.push(focus.clone());
        if focus.contains("Timeline of") {
            break;
        }
    }
    let order = [
        "To the report",
        "Promises",
        "What was promised",
        "Zoom in",
        "Next late job",
        "Timeline of",
    ];
    let mut from = 0;
    for words in order {
        let at = seen[from..].iter().position(|one| one.contains(words));
        from += at.unwrap_or_else(|| panic!("{words} is not reached in {seen:?}")) + 1;
    }
    let mut say = |key: &str| {
        browser.press(key);
        browser.value(SAID).as_str().unwrap_or_default().to_owned()
    };
    let late = say("n");
    assert!(late.contains("late by") && late.contains("job "), "{late}");
    assert_ne!(say("n"), late, "the next one");
    assert_eq!(say("p"), late, "and back");
    let zoomed = say("+");
    assert!(zoomed.contains("one by one"), "{zoomed}");
    assert_ne!(say("ArrowRight"), zoomed);
    assert!(say("ArrowDown").contains("jobs complete"));
    assert!(say("]").contains("job "));
    assert!(say("0").contains("The whole run"));
    assert_eq!(browser.complaints(), Vec::<String>::new());
    let button = "document.querySelector('[data-do=next]').focus()";
    browser.value(button);
    browser.press("Enter");
    assert!(browser.value(SAID).as_str().is_some_and(|said| said.contains("late by")));
}

#[test]
fn a_screen_reader_is_told_everything() {
    let Some(mut browser) = Browser::start() else { return };
    let (_folder, page) = written(&made::eventful());
    browser.screen(1280, "light");
    browser.open(&page);
    let tree = browser.call("Accessibility.getFullAXTree", serde_json::json!({}));
    let nodes = tree["nodes"].as_array().expect("nodes");
    let nodes: Vec<(&str, &str)> = nodes
        .iter()
        .filter(|node| node["ignored"] != true)
        .map(|node| {
            let text = |key: &str| node[key]["value"].as_str().unwrap_or_default();
            (text("role"), text("name"))
        })
        .collect();
    let count = |role: &str| nodes.iter().filter(|node| node.0 == role).count();
    for role in ["banner", "navigation", "main", "contentinfo", "status", "application"] {
        assert_eq!(count(role), 1, "{role}");
    }
    assert!(
        count("heading") >= 9 && count("table") >= 8,
        "{} {}",
        count("heading"),
        count("table")
    );
    let named = [
        "image",
        "img",
        "button",
        "link",
        "region",
        "table",
        "heading",
        "application",
        "navigation",
    ];
    for (role, name) in &nodes {
        assert!(!named.contains(role) || !name.is_empty(), "a {role} without a name");
    }
    assert!(count("button") >= 7, "{}", count("button"));
    let pictures = count("image") + count("img");
    assert!(pictures >= 10, "{pictures}");
    assert!(nodes.iter().any(|(role, name)| *role == "rowheader" && *name == "capture"));
}

#[test]
fn without_scripts_everything_but_zooming_is_there() {
    let Some(mut browser) = Browser::start() else { return };
    let (_folder, page) = written(&made::trace(60));
    browser.screen(1280, "light");
    let params = serde_json::json!({ "value": true });
    browser.call("Emulation.setScriptExecutionDisabled", params);
    browser.open(&page);
    assert_eq!(browser.complaints(), Vec::<String>::new());
    let tree = browser.call("Accessibility.getFullAXTree", serde_json::json!({}));
    let text = tree.to_string();
    for words in ["capture: ", "busy", "capture ran instead", "Response times of", "late by"] {
        assert!(text.contains(words), "{words}");
    }
    assert!(!text.contains("Zoom in"), "a button that does nothing");
}
