//! Migrations that break off half-way, as on MySQL and MariaDB, which commit at each statement.

#![expect(
    clippy::panic,
    reason = "a test harness: a migration that cannot be repeated has failed"
)]

use postroom::{Migration, migration};

use crate::fresh::Fresh;

/// A statement that fails, so that the migration ends there.
const BREAK: &str = "select broken_off from nowhere;\n";

/// Breaks off each migration after each of its statements, and runs it again. Its statements end with their lines.
pub async fn goes_on(fresh: &Fresh, owner: &str, all: &[Migration]) {
    for (at, one) in all.iter().enumerate() {
        let statements: Vec<&str> = one.up.split_inclusive(";\n").collect();
        for count in 1..=statements.len() {
            let done = statements.get(..count).unwrap_or_default().concat();
            break_off(fresh, owner, all.get(..at).unwrap_or_default(), one, done).await;
        }
        let known = all.get(..=at).unwrap_or_default();
        match migration::up(fresh.db(), owner, known).await {
            Ok(applied) => assert_eq!(applied.len(), 1, "{}", one.name),
            Err(error) => panic!("{}", error.report()),
        }
    }
}

/// Runs this much of a migration.
async fn break_off(fresh: &Fresh, owner: &str, before: &[Migration], one: &Migration, done: String) {
    let broken = Migration {
        up: Box::leak((done + BREAK).into_boxed_str()),
        ..*one
    };
    let known = [before, &[broken]].concat();
    match migration::up(fresh.db(), owner, &known).await {
        Ok(_) => panic!("{} did not break off", one.name),
        Err(error) => assert!(error.report().contains("nowhere"), "{}", error.report()),
    }
}
