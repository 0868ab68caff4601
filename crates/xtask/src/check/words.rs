//! Words that are being replaced, and what to use instead: terms of this field, with one meaning each.

/// A word in names of types (`Door`, also in `DoorPoller`), or of everything else (`own_core`, also in
/// `wait_for_own_core` and `OWN_CORE`).
pub(super) struct Word {
    pub(super) text: &'static str,
    pub(super) instead: &'static str,
    /// Files that contain this text have the word from elsewhere.
    unless: Option<&'static str>,
}

const fn word(text: &'static str, instead: &'static str) -> Word {
    Word {
        text,
        instead,
        unless: None,
    }
}

pub(super) const WORDS: &[Word] = &[
    word("Door", "say Listener"),
    word("let_in", "say accept"),
    Word {
        unless: Some("serde::de"),
        ..word("Visitor", "say Session")
    },
    word("attend", "say on_readable"),
    word("hear_bells", "say take_doorbells"),
    word("Desk", "say service"),
    word("Happening", "say Event"),
    Word {
        unless: Some("Join"),
        ..word("Leave", "say Grant")
    },
    word(
        "settle",
        "say publish, finish, pin, wait_for or what it does",
    ),
    word("Heard", "say Arrival"),
    word("Came", "say Arrival"),
    word("looking", "say polling"),
    word("own_core", "say pin"),
    word("Sight", "say what it holds"),
    word("Lesson", "say what it holds"),
    word("Idiom", "say what it holds"),
    word("Strange", "say what it holds"),
    word("Oddities", "say what it holds"),
    word("Chatter", "say what it holds"),
    word("Surroundings", "say what it holds"),
];

impl Word {
    /// Whether a file is searched for the word.
    pub(super) fn is_sought_in(&self, source: &str) -> bool {
        self.unless.is_none_or(|other| !source.contains(other))
    }

    /// Whether an identifier is this word or contains it.
    pub(super) fn is_in(&self, identifier: &str) -> bool {
        if is_type(self.text) {
            return is_type(identifier) && camel_parts(identifier).any(|part| part == self.text);
        }
        if is_type(identifier) {
            return false;
        }
        let parts: Vec<String> = identifier.split('_').map(str::to_lowercase).collect();
        let wanted: Vec<&str> = self.text.split('_').collect();
        parts.windows(wanted.len()).any(|window| window == wanted)
    }
}

fn is_type(name: &str) -> bool {
    name.starts_with(char::is_uppercase) && name.contains(char::is_lowercase)
}

/// Splits `DoorPoller` into `Door` and `Poller`.
fn camel_parts(identifier: &str) -> impl Iterator<Item = &str> {
    let starts = identifier
        .char_indices()
        .filter(|(_, letter)| letter.is_uppercase());
    let starts: Vec<usize> = starts.map(|(at, _)| at).collect();
    let ends = starts.iter().skip(1).copied().chain([identifier.len()]);
    let ranges: Vec<_> = starts.iter().copied().zip(ends).collect();
    ranges
        .into_iter()
        .map(|(start, end)| &identifier[start..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_in(text: &'static str, identifier: &str) -> bool {
        word(text, "").is_in(identifier)
    }

    #[test]
    fn whole_parts_of_names_count() {
        assert!(is_in("Door", "Door") && is_in("Door", "DoorPoller") && is_in("Door", "OpenDoor"));
        assert!(!is_in("Door", "Doorbell") && !is_in("Door", "door") && !is_in("Door", "DOOR"));
        assert!(is_in("own_core", "own_core") && is_in("own_core", "with_own_core"));
        assert!(is_in("own_core", "OWN_CORE") && !is_in("own_core", "own_cores"));
        assert!(!is_in("settle", "settled") && is_in("settle", "settle_memory"));
        assert!(!is_in("settle", "Settle"));
    }

    #[test]
    fn words_from_elsewhere_are_not_ours() {
        let visitor = WORDS.iter().find(|word| word.text == "Visitor").unwrap();
        assert!(visitor.is_sought_in("struct Visitor;"));
        assert!(!visitor.is_sought_in("use serde::de::Visitor;"));
    }

    #[test]
    fn each_word_stands_once() {
        for (at, one) in WORDS.iter().enumerate() {
            let before = &WORDS[..at];
            assert!(
                before.iter().all(|other| other.text != one.text),
                "{}",
                one.text
            );
        }
    }
}
