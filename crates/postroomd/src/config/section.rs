//! One table of the configuration: hands out its keys, and notes down every mistake instead of stopping at the first.

use std::collections::BTreeMap;

use toml::{Table, Value};

/// Mistakes found so far, and which keys came from the environment.
#[derive(Debug, Default)]
pub(super) struct Mistakes {
    found: Vec<String>,
    variables: BTreeMap<String, String>,
}

impl Mistakes {
    /// Remembers that a key came from an environment variable.
    pub(super) fn came_from(&mut self, path: String, variable: String) {
        self.variables.insert(path, variable);
    }

    pub(super) fn add(&mut self, path: &str, says: &str) {
        let variable = self
            .variables
            .iter()
            .find(|(from, _)| lies_in(path, from) || lies_in(from, path));
        let from = variable.map(|(_, name)| format!(" (from {name})")).unwrap_or_default();
        self.found.push(format!("{path}{from}: {says}"));
    }

    pub(super) fn into_vec(self) -> Vec<String> {
        self.found
    }
}

/// Whether a key is another one, or lies inside it.
fn lies_in(path: &str, other: &str) -> bool {
    path.strip_prefix(other)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// A table and its place.
pub(super) struct Section<'a> {
    path: String,
    table: Table,
    known: Vec<&'static str>,
    is_clean: bool,
    mistakes: &'a mut Mistakes,
}

impl<'a> Section<'a> {
    pub(super) fn new(path: &str, table: Table, mistakes: &'a mut Mistakes) -> Self {
        Self {
            path: path.to_owned(),
            table,
            known: Vec::new(),
            is_clean: true,
            mistakes,
        }
    }

    /// A key's value, if it is there and right.
    pub(super) fn take<T>(&mut self, key: &'static str, parse: impl FnOnce(&Value) -> Result<T, String>) -> Option<T> {
        let value = self.take_value(key)?;
        match parse(&value) {
            Ok(value) => Some(value),
            Err(says) => {
                self.wrong(key, &says);
                None
            }
        }
    }

    /// The same, or the default.
    pub(super) fn take_or<T>(
        &mut self,
        key: &'static str,
        parse: impl FnOnce(&Value) -> Result<T, String>,
        default: T,
    ) -> T {
        self.take(key, parse).unwrap_or(default)
    }

    /// A key's value, raw.
    pub(super) fn take_value(&mut self, key: &'static str) -> Option<Value> {
        self.known.push(key);
        self.table.remove(key)
    }

    /// All keys that were not taken yet.
    pub(super) fn take_rest(&mut self) -> Table {
        std::mem::take(&mut self.table)
    }

    /// A key that has no default.
    pub(super) fn require<T>(
        &mut self,
        key: &'static str,
        parse: impl FnOnce(&Value) -> Result<T, String>,
    ) -> Option<T> {
        if !self.table.contains_key(key) {
            self.wrong(key, "is required");
        }
        self.take(key, parse)
    }

    /// Reads a table inside this one; an absent table is an empty one.
    pub(super) fn section<T>(&mut self, key: &'static str, read: impl FnOnce(&mut Section<'_>) -> T) -> T {
        let table = match self.take_value(key) {
            None => Table::new(),
            Some(Value::Table(table)) => table,
            Some(_) => {
                // The value may be an address with a password, so it is not repeated.
                self.wrong(key, "is a table, not a value: it has keys of its own");
                Table::new()
            }
        };
        self.nested(key, table, read)
    }

    /// Like [`Section::section`], but an absent table is none.
    pub(super) fn section_if_any<T>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(&mut Section<'_>) -> T,
    ) -> Option<T> {
        if self.table.contains_key(key) {
            return Some(self.section(key, read));
        }
        self.known.push(key);
        None
    }

    /// Reads a table that lies at `key` inside this one.
    pub(super) fn nested<T>(&mut self, key: &str, table: Table, read: impl FnOnce(&mut Section<'_>) -> T) -> T {
        let mut section = Section::new(&self.path_of(key), table, self.mistakes);
        let value = read(&mut section);
        section.finish();
        value
    }

    /// The keys that were asked for.
    pub(super) fn known(&self) -> &[&'static str] {
        &self.known
    }

    /// A key that must not be here; what was asked for is not touched.
    pub(super) fn refuse(&mut self, key: &str, says: &str) {
        if self.table.remove(key).is_some() {
            self.wrong(key, says);
        }
    }

    /// Whether every key so far was right, so that it makes sense to compare them.
    pub(super) fn is_clean(&self) -> bool {
        self.is_clean
    }

    /// Notes down a mistake about a key.
    pub(super) fn wrong(&mut self, key: &str, says: &str) {
        self.is_clean = false;
        let path = self.path_of(key);
        self.mistakes.add(&path, says);
    }

    /// Reports every key that has not been read as unknown.
    pub(super) fn finish(mut self) {
        let table = std::mem::take(&mut self.table);
        let known = self.known.join(", ");
        for key in table.keys() {
            self.wrong(key, &format!("unknown key; known here: {known}"));
        }
    }

    /// A key with its place.
    pub(super) fn path_of(&self, key: &str) -> String {
        match self.path.as_str() {
            "" => key.to_owned(),
            path => format!("{path}.{key}"),
        }
    }
}
