//! The configuration as people meet it.

use crate::harness::Place;

#[tokio::test]
async fn every_key_is_documented() {
    let place = Place::new();
    insta::assert_snapshot!(place.ok(&["config", "print"]).await);
}

#[tokio::test]
async fn a_file_is_checked() {
    let place = Place::new();
    assert_eq!(
        place.ok(&["config", "check"]).await,
        "no mistakes; store sqlite://postroom-data/postroom.db, 0 configured routes\n"
    );
    let reference = place.ok(&["config", "print"]).await;
    place.configure(&reference);
    place.ok(&["config", "check"]).await;
    place.configure("[store]\nurl = \"redis://x\"\n[[routes]]\nname = \"a\"\nto = \"kafka\"\n");
    insta::assert_snapshot!(place.fails(&["config", "check"]).await);
    assert!(
        place.fails(&["status"]).await.contains("redis://"),
        "every command checks it"
    );
}

#[tokio::test]
async fn every_profile_is_accepted() {
    let profiles = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/profiles");
    let mut checked = 0;
    for profile in std::fs::read_dir(profiles).unwrap() {
        let file = profile.unwrap().path();
        let said = Place::new()
            .ok(&["--config", &file.display().to_string(), "config", "check"])
            .await;
        assert!(said.starts_with("no mistakes"), "{}: {said}", file.display());
        checked += 1;
    }
    assert!(checked > 0);
}
