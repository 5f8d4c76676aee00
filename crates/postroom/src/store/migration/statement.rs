//! A migration's text, cut into its statements.

/// The part of a script that a letter belongs to.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Code,
    Quoted(u8),
    LineComment,
    BlockComment,
}

/// The statements of a script for MySQL or MariaDB, each with its semicolon. A body (`begin`, … `end`, both at the beginning of
/// their lines) belongs to one statement.
pub(super) fn statements(script: &str) -> Vec<&str> {
    let mut statements = Vec::new();
    let (mut from, mut has_code, mut is_body) = (0, false, false);
    let mut cutter = Cutter::new(script);
    while let Some((at, letter, place)) = cutter.next() {
        if place != Place::Code {
            // A comment with a mark is code for the servers that it is meant for.
            has_code |= matches!(place, Place::Quoted(_)) || cutter.is_marked_comment(at);
            continue;
        }
        let is_line_start = at == 0 || script.as_bytes().get(at - 1) == Some(&b'\n');
        if is_line_start {
            let line = script.get(at..).unwrap_or_default();
            is_body = starts_with_word(line, "begin") || (is_body && !starts_with_word(line, "end"));
        }
        if letter == b';' && !is_body {
            statements.extend(script.get(from..=at).filter(|_| has_code));
            (from, has_code) = (at + 1, false);
        } else {
            has_code |= !letter.is_ascii_whitespace();
        }
    }
    statements.extend(script.get(from..).filter(|_| has_code));
    statements
}

/// Walks over a script byte by byte: what matters here is ASCII.
struct Cutter<'a> {
    bytes: &'a [u8],
    at: usize,
    place: Place,
}

impl<'a> Cutter<'a> {
    fn new(script: &'a str) -> Self {
        Self {
            bytes: script.as_bytes(),
            at: 0,
            place: Place::Code,
        }
    }

    /// The next byte, where it is, and what it belongs to.
    fn next(&mut self) -> Option<(usize, u8, Place)> {
        let at = self.at;
        let letter = *self.bytes.get(at)?;
        self.at += 1;
        match self.place {
            Place::Code => self.place = self.opened_by(at, letter),
            Place::Quoted(_) if letter == b'\\' => self.at += 1,
            Place::Quoted(quote) if letter == quote => {
                self.place = Place::Code;
                return Some((at, letter, Place::Quoted(quote)));
            }
            Place::LineComment if letter == b'\n' => {
                self.place = Place::Code;
                return Some((at, letter, Place::LineComment));
            }
            Place::BlockComment if self.starts(at, b"*/") => {
                self.at += 1;
                self.place = Place::Code;
                return Some((at, letter, Place::BlockComment));
            }
            _ => {}
        }
        Some((at, letter, self.place))
    }

    fn opened_by(&self, at: usize, letter: u8) -> Place {
        match letter {
            b'\'' | b'"' | b'`' => Place::Quoted(letter),
            b'#' => Place::LineComment,
            b'-' if self.starts(at, b"-- ") || self.starts(at, b"--\n") => Place::LineComment,
            b'/' if self.starts(at, b"/*") => Place::BlockComment,
            _ => Place::Code,
        }
    }

    fn is_marked_comment(&self, at: usize) -> bool {
        self.starts(at, b"/*!") || self.starts(at, b"/*M!")
    }

    fn starts(&self, at: usize, with: &[u8]) -> bool {
        self.bytes.get(at..).is_some_and(|rest| rest.starts_with(with))
    }
}

fn starts_with_word(line: &str, word: &str) -> bool {
    line.strip_prefix(word)
        .is_some_and(|rest| !rest.starts_with(|letter: char| letter.is_ascii_alphanumeric() || letter == '_'))
}

#[cfg(test)]
mod tests {
    use super::statements;

    #[test]
    fn statements_end_at_their_semicolons() {
        let check = |script: &str, expected: &[&str]| {
            let found: Vec<_> = statements(script).into_iter().map(str::trim).collect();
            assert_eq!(found, expected, "{script}");
        };
        check("", &[]);
        check("select 1", &["select 1"]);
        check("select 1; select 2;\n", &["select 1;", "select 2;"]);
        check("-- a; b\nselect 1;\n-- the end;\n", &["-- a; b\nselect 1;"]);
        check(
            "select ';', \"it's;\", `a;b`; select 2",
            &["select ';', \"it's;\", `a;b`;", "select 2"],
        );
        check(
            r"select 'it\'s;'; select 'it''s;'",
            &[r"select 'it\'s;';", "select 'it''s;'"],
        );
        check(
            "select 1 /* one; two */; # three;\nselect 2",
            &["select 1 /* one; two */;", "# three;\nselect 2"],
        );
        check("/*M! select 1 */; /* nothing */;", &["/*M! select 1 */;"]);
        check("select 'ä;'; select 3-2;", &["select 'ä;';", "select 3-2;"]);
    }

    #[test]
    fn a_body_is_part_of_its_statement() {
        let procedure = "create procedure p()\nbegin\n  set @a = case 1 when 1 then 2\n  end;\n  select 1;\nend;";
        let script = format!("begin_it;\n{procedure}\nselect 2;");
        let found: Vec<_> = statements(&script).into_iter().map(str::trim).collect();
        assert_eq!(found, ["begin_it;", procedure, "select 2;"]);
    }
}
