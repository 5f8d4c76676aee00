//! The arrows inside the engine: which folder of `crates/postroom/src` may import from which other.
//!
//! The map is in ARCHITECTURE.md, in the block that begins with ` ```arrows `. A line names a folder and the folders that it
//! imports from, all of them on lines above: the map cannot contain a cycle.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

const MAP: &str = "ARCHITECTURE.md";
const SOURCE: &str = "crates/postroom/src";
const BLOCK: &str = "```arrows";

/// Folders, each with the folders that it imports from.
type Arrows = BTreeMap<String, BTreeSet<String>>;

/// Everything that differs between the map and the imports.
pub(crate) fn problems(root: &Path) -> Result<Vec<String>> {
    let text = fs::read_to_string(root.join(MAP)).with_context(|| format!("read {MAP}"))?;
    let (map, mut problems) = read_map(&text);
    let imports = read_imports(&root.join(SOURCE))?;
    problems.extend(differences(&map, &imports));
    Ok(problems)
}

fn read_map(text: &str) -> (Arrows, Vec<String>) {
    let block = text.lines().skip_while(|line| !line.starts_with(BLOCK)).skip(1);
    let (mut map, mut problems) = (Arrows::new(), Vec::new());
    for line in block.take_while(|line| !line.starts_with("```")) {
        let (folder, others) = line.split_once('→').unwrap_or((line, ""));
        let others: BTreeSet<String> = others.split_whitespace().map(str::to_owned).collect();
        let upward = others.iter().filter(|other| !map.contains_key(*other));
        problems.extend(upward.map(|other| format!("{MAP}: {} → {other}: no line above names {other}", folder.trim())));
        map.insert(folder.trim().to_owned(), others);
    }
    if map.is_empty() {
        problems.push(format!("{MAP}: no block begins with {BLOCK}"));
    }
    (map, problems)
}

/// Reads every file of the engine. The file `x.rs` and the folder `x` beside it are one folder of the map.
fn read_imports(source: &Path) -> Result<Arrows> {
    let mut arrows = Arrows::new();
    let mut open = vec![source.to_owned()];
    while let Some(folder) = open.pop() {
        for item in fs::read_dir(&folder).with_context(|| format!("read {}", folder.display()))? {
            let path = item?.path();
            if path.is_dir() {
                open.push(path);
                continue;
            }
            let within = path.strip_prefix(source)?.with_extension("");
            let first = within.iter().next().map(|name| name.to_string_lossy().into_owned());
            let Some(name) = first.filter(|name| name != "lib") else {
                continue;
            };
            let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
            let others = imports(&text).into_iter().filter(|other| *other != name);
            arrows.entry(name.clone()).or_default().extend(others);
        }
    }
    Ok(arrows)
}

/// The first name after each `crate::`, comments and tests left out.
fn imports(text: &str) -> BTreeSet<String> {
    let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or(text);
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    let paths = lines.flat_map(|line| line.split("crate::").skip(1));
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    let first = |path: &str| path.chars().take_while(|letter| is_part(*letter)).collect();
    paths.map(first).collect()
}

fn differences(map: &Arrows, imports: &Arrows) -> Vec<String> {
    let mut problems = Vec::new();
    let none = BTreeSet::new();
    for folder in map.keys().chain(imports.keys()).collect::<BTreeSet<_>>() {
        let (allowed, found) = match (map.get(folder), imports.get(folder)) {
            (Some(allowed), Some(found)) => (allowed, found),
            (None, Some(found)) => {
                problems.push(format!("{MAP}: the map does not name {SOURCE}/{folder}"));
                (&none, found)
            }
            (Some(_), None) | (None, None) => {
                problems.push(format!("{MAP}: there is no {SOURCE}/{folder}"));
                continue;
            }
        };
        let forbidden = found.difference(allowed);
        problems.extend(forbidden.map(|other| format!("{SOURCE}/{folder} must not import from {other}")));
        let unused = allowed.difference(found);
        problems.extend(unused.map(|other| format!("{MAP}: {folder} → {other}: nothing there imports from {other}")));
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# Map\n```arrows\nerror →\nevent → error\nstore → error event\n```\n";

    fn arrows(lines: &[(&str, &[&str])]) -> Arrows {
        let owned = |others: &[&str]| others.iter().map(|other| (*other).to_owned()).collect();
        lines
            .iter()
            .map(|(name, others)| ((*name).to_owned(), owned(others)))
            .collect()
    }

    #[test]
    fn imports_that_follow_the_map_are_no_problem() {
        let (map, problems) = read_map(TEXT);
        assert_eq!(problems, [""; 0]);
        let imports = arrows(&[("error", &[]), ("event", &["error"]), ("store", &["error", "event"])]);
        assert_eq!(differences(&map, &imports), [""; 0]);
    }

    #[test]
    fn an_import_against_the_map_is_found() {
        let (map, _) = read_map(TEXT);
        let imports = arrows(&[("error", &[]), ("event", &["error", "store"]), ("store", &["error"])]);
        let expected = [
            "crates/postroom/src/event must not import from store",
            "ARCHITECTURE.md: store → event: nothing there imports from event",
        ];
        assert_eq!(differences(&map, &imports), expected);
    }

    #[test]
    fn the_map_and_the_folders_name_the_same() {
        let (map, _) = read_map("```arrows\nerror →\nold →\n```");
        let imports = arrows(&[("error", &[]), ("new", &[])]);
        let expected = [
            "ARCHITECTURE.md: the map does not name crates/postroom/src/new",
            "ARCHITECTURE.md: there is no crates/postroom/src/old",
        ];
        assert_eq!(differences(&map, &imports), expected);
    }

    #[test]
    fn a_map_with_a_cycle_or_without_lines_is_refused() {
        let (_, problems) = read_map("```arrows\nevent → store\nstore → event\n```");
        assert_eq!(problems, ["ARCHITECTURE.md: event → store: no line above names store"]);
        let (_, problems) = read_map("no map");
        assert_eq!(problems, ["ARCHITECTURE.md: no block begins with ```arrows"]);
    }

    #[test]
    fn comments_and_tests_import_nothing() {
        let text = "use crate::event::Event;\n/// [`crate::relay`]\nfn f() { crate::store::x() }\n#[cfg(test)]\nmod tests {\n use crate::relay::R;\n}";
        assert_eq!(imports(text), BTreeSet::from(["event".to_owned(), "store".to_owned()]));
    }
}
