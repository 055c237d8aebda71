//! Makes text of a trace safe to show, so that the contents of a name change nothing around it.

/// The number of characters of a name that are shown. Longer names are cut, visibly.
const LONGEST_NAME: usize = 80;

/// Returns a name on one line, without invisible characters, and of limited length.
pub(crate) fn name(text: &str) -> String {
    let mut shown: String = text.chars().take(LONGEST_NAME).map(visible).collect();
    if text.chars().nth(LONGEST_NAME).is_some() {
        shown.push('…');
    }
    if shown.is_empty() { "(no name)".into() } else { shown }
}

/// Returns a sentence or a line, treated like a name but of any length.
pub(crate) fn line(text: &str) -> String {
    text.chars().map(visible).collect()
}

/// Returns several lines, with their indentation.
pub(crate) fn lines(text: &str) -> String {
    text.chars().map(|c| if matches!(c, '\n' | '\t') { c } else { visible(c) }).collect()
}

/// Replaces a character that draws nothing, or changes the direction of the text, by a mark.
fn visible(c: char) -> char {
    let turns = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2066}'..='\u{2069}');
    let draws_nothing = matches!(c, '\u{ad}' | '\u{200b}'..='\u{200d}' | '\u{2028}' | '\u{2029}'
        | '\u{2060}'..='\u{2065}' | '\u{206a}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e007f}');
    if c.is_control() || turns || draws_nothing { char::REPLACEMENT_CHARACTER } else { c }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_name_is_invisible_or_endless() {
        assert_eq!(
            name("a\u{202e}b\u{0}c\nd\u{1b}[31m"),
            "a\u{fffd}b\u{fffd}c\u{fffd}d\u{fffd}[31m"
        );
        assert_eq!(name("größer, 音"), "größer, 音");
        assert_eq!(name(""), "(no name)");
        assert_eq!(name(&"x".repeat(500)).chars().count(), LONGEST_NAME + 1);
        assert_eq!(lines("a\n\tb\r"), "a\n\tb\u{fffd}");
    }
}
