//! Contexts know each other only by their events.

use std::fs;
use std::path::Path;

const CONTEXTS: [&str; 8] = [
    "guild",
    "billing",
    "licensing",
    "recovery",
    "member",
    "identity",
    "notification",
    "audit",
];

/// The lines of a file that use another context, except for its events.
fn reaches(context: &str, file: &Path) -> Vec<String> {
    let text = fs::read_to_string(file).unwrap();
    let is_reach = |line: &&str| {
        let others = CONTEXTS.iter().filter(|other| **other != context);
        others.clone().any(|other| {
            let inside = format!("crate::{other}::");
            line.contains(&inside) && !line.contains(&format!("{inside}events::"))
        })
    };
    text.lines().filter(is_reach).map(str::to_owned).collect()
}

#[test]
fn u_01_a_context_knows_others_by_their_events_alone() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut doors = Vec::new();
    for context in CONTEXTS {
        for entry in fs::read_dir(src.join(context)).unwrap() {
            let file = entry.unwrap().path();
            let found = reaches(context, &file);
            // An HTTP handler may check that a guild or a user exists; event handlers may not.
            match file.ends_with("http.rs") {
                true => doors.extend(found),
                false => assert_eq!(found, Vec::<String>::new(), "{}", file.display()),
            }
        }
    }
    doors.sort();
    doors.dedup();
    let allowed = [
        "use crate::guild::tables::check_installed;",
        "use crate::identity::tables::check_registered;",
    ];
    assert_eq!(doors, allowed);
}

#[test]
fn u_01_rules_know_no_database_no_json_and_no_topic() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for context in CONTEXTS {
        let Ok(text) = fs::read_to_string(src.join(context).join("domain.rs")) else {
            continue;
        };
        for word in ["sea_orm", "sqlx", "serde_json", "postroom", "axum"] {
            assert!(!text.contains(word), "{context}/domain.rs knows {word}");
        }
    }
}
