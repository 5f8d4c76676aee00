//! The permissions of the database file, its log and its folder.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::{migrated, open};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn set(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[tokio::test]
async fn a_new_store_is_its_owners_alone() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("a/postroom-data");
    let _store = migrated(&folder.join("postroom.db")).await;
    assert_eq!(mode(&folder), 0o700);
    for name in ["postroom.db", "postroom.db-wal", "postroom.db-shm"] {
        assert_eq!(mode(&folder.join(name)), 0o600, "{name}");
    }
}

#[tokio::test]
async fn a_store_of_an_older_version_is_kept_from_other_users() {
    let place = tempfile::tempdir().unwrap();
    set(place.path(), 0o755);
    let file = place.path().join("postroom.db");
    let store = migrated(&file).await;
    let names = ["postroom.db", "postroom.db-wal", "postroom.db-shm"];
    for name in names {
        set(&place.path().join(name), 0o644);
    }
    let _second = open(&file).await;
    for name in names {
        assert_eq!(mode(&place.path().join(name)), 0o640, "{name}");
    }
    assert_eq!(mode(place.path()), 0o755, "a folder that exists is not touched");
    store.close().await;
}

#[tokio::test]
async fn a_group_that_was_let_in_stays() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("postroom.db");
    migrated(&file).await.close().await;
    set(&file, 0o664);
    let _store = migrated(&file).await;
    assert_eq!(mode(&file), 0o660);
    assert_eq!(mode(&place.path().join("postroom.db-wal")), 0o660);
}

#[tokio::test]
async fn readers_change_no_permission() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("postroom.db");
    migrated(&file).await.close().await;
    set(&file, 0o644);
    let _store = postroom_sqlite::Sqlite::open_to_read(file.to_str().unwrap())
        .await
        .unwrap();
    assert_eq!(mode(&file), 0o644);
}
