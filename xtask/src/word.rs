//! Finding a name in source text without matching the middle of a longer one.

/// Whether the text holds this name with nothing of a name on either side.
pub(crate) fn contains_word(text: &str, word: &str) -> bool {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    text.match_indices(word).any(|(start, _)| {
        let before = text.get(..start).and_then(|head| head.chars().next_back());
        let after = text.get(start + word.len()..).and_then(|tail| tail.chars().next());
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
}

#[cfg(test)]
mod tests {
    use super::contains_word;

    #[test]
    fn a_word_is_not_part_of_a_longer_one() {
        assert!(contains_word("fn an_entry() {", "an_entry"));
        assert!(contains_word("an_entry_is, an_entry", "an_entry"));
        assert!(!contains_word("fn an_entry_is_leased() {", "an_entry"));
        assert!(!contains_word("not_an_entry", "an_entry"));
    }
}
