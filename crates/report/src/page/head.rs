//! Writes the head of the page with its content security policy: a browser may show the page and
//! run its one script, which is here too.

use maud::{Markup, PreEscaped, html};

const BASE: &str = punctual_sweep::page::STYLE;
const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("timeline.js");

/// The SHA-256 of the script in base64. A browser runs nothing else, and a test compares it.
const SCRIPT_HASH: &str = "O5OFzeoK3zSO1B6AhujqEj+Y5yT/QMtT0DDHVcM02yw=";

pub(super) fn head(title: &str) -> Markup {
    let policy = format!(
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{SCRIPT_HASH}'; base-uri 'none'; \
         form-action 'none'"
    );
    html! {
        head {
            meta charset="utf-8";
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            meta name="referrer" content="no-referrer";
            meta http-equiv="Content-Security-Policy" content=(policy);
            title { (title) }
            style { (PreEscaped(BASE)) (PreEscaped(STYLE)) }
        }
    }
}

pub(super) fn script() -> Markup {
    html! { script { (PreEscaped(SCRIPT)) } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use sha2::{Digest, Sha256};

    #[test]
    fn the_script_is_the_one_that_the_policy_names() {
        let digest = Sha256::digest(SCRIPT.as_bytes());
        assert_eq!(SCRIPT_HASH, STANDARD.encode(digest), "write this into SCRIPT_HASH");
        assert!(!SCRIPT.contains("</"), "would end the element");
    }
}
