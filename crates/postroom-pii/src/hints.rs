//! A cheap look at a text. It tells which detectors can find anything.

/// The shortest run of characters that may be encoded text.
const RUN_BYTES_MIN: usize = 8;

#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each flag belongs to one detector")]
pub(crate) struct Hints {
    pub(crate) digits: usize,
    pub(crate) has_letters_of_other_scripts: bool,
    pub(crate) has_upper_case: bool,
    pub(crate) has_at_sign: bool,
    pub(crate) has_space: bool,
    pub(crate) has_bracket: bool,
    pub(crate) has_assignment: bool,
    pub(crate) has_long_run: bool,
}

impl Hints {
    pub(crate) fn of(text: &str) -> Self {
        let mut hints = Self::default();
        let mut run = 0;
        for byte in text.bytes() {
            run = if is_of_run(byte) { run + 1 } else { 0 };
            hints.has_long_run |= run >= RUN_BYTES_MIN;
            match byte {
                b'0'..=b'9' => hints.digits += 1,
                b'A'..=b'Z' => hints.has_upper_case = true,
                b'@' => hints.has_at_sign = true,
                b' ' | b'\t' | b'\n' | b'\r' => hints.has_space = true,
                b'(' | b'[' | b'{' | b'<' => hints.has_bracket = true,
                b'=' | b':' => hints.has_assignment = true,
                128.. => hints.has_letters_of_other_scripts = true,
                _ => {}
            }
        }
        hints
    }
}

fn is_of_run(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_')
}
