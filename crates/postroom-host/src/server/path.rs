//! Paths of requests.

/// Whether a path is UTF-8 once its escapes are read. Parts of another one cannot be read as texts.
pub(super) fn is_text(path: &str) -> bool {
    let mut decoded = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let escaped = match (first, after) {
            (b'%', [high, low, behind @ ..]) => hex(*high).zip(hex(*low)).map(|(high, low)| (16 * high + low, behind)),
            _ => None,
        };
        let (byte, behind) = escaped.unwrap_or((first, after));
        decoded.push(byte);
        rest = behind;
    }
    std::str::from_utf8(&decoded).is_ok()
}

fn hex(digit: u8) -> Option<u8> {
    let digit = char::from(digit).to_digit(16)?;
    u8::try_from(digit).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_text_if_its_bytes_are_utf_8() {
        for text in [
            "/",
            "/a%20b",
            "/%ED%95%9C",
            "/한",
            "/100%",
            "/%zz",
            "/%f",
            "/%C3%A9/%c3%a9",
        ] {
            assert!(is_text(text), "{text}");
        }
        for other in ["/%FF", "/a/%ff/b", "/%C3", "/%C3/%A9", "/%ED%A0%80", "/%80"] {
            assert!(!is_text(other), "{other}");
        }
    }
}
