//! `deploy/compose.yaml` and how CONTRIBUTING.md says that tests find its services.

use std::path::Path;

use yaml_rust2::{Yaml, YamlLoader};

fn read(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn services() -> Vec<(String, Yaml)> {
    let mut documents = YamlLoader::load_from_str(&read("deploy/compose.yaml")).unwrap();
    assert_eq!(documents.len(), 1);
    let services = documents.remove(0)["services"].clone().into_hash().unwrap();
    services
        .into_iter()
        .map(|(name, service)| (name.into_string().unwrap(), service))
        .collect()
}

/// Where a service listens on the machine.
fn port(name: &str, service: &Yaml) -> String {
    let ports = service["ports"]
        .as_vec()
        .unwrap_or_else(|| panic!("{name} has no port"));
    let [port] = ports.as_slice() else {
        panic!("{name} has {} ports", ports.len());
    };
    let port = port.as_str().unwrap();
    let rest = port.strip_prefix("127.0.0.1:");
    let rest = rest.unwrap_or_else(|| panic!("{name}: {port} can be reached from elsewhere"));
    rest.split(':').next().unwrap().to_owned()
}

#[test]
fn every_service_is_pinned_watched_and_on_loopback() {
    for (name, service) in services() {
        let image = service["image"].as_str().map(str::to_owned);
        let from = || {
            let steps = service["build"]["dockerfile_inline"].as_str()?;
            steps.lines().next()?.strip_prefix("FROM ").map(str::to_owned)
        };
        let image = image.or_else(from).unwrap_or_else(|| panic!("{name} has no image"));
        let version = image.split_once(':').map(|(_, version)| version).unwrap_or_default();
        assert!(version.starts_with(|c: char| c.is_ascii_digit()), "{name}: {image}");
        assert!(version.contains('.'), "{name}: {image} moves");
        let check = service["healthcheck"]["test"].as_vec();
        assert!(check.is_some_and(|check| !check.is_empty()), "{name} is not watched");
        assert!(!port(&name, &service).is_empty());
    }
}

#[test]
fn contributing_says_how_tests_find_each_service() {
    let contributing = read("CONTRIBUTING.md");
    let services = services();
    assert_eq!(services.len(), 6);
    for (name, service) in services {
        let variable = match name.as_str() {
            "mariadb" => "POSTROOM_TEST_MYSQL_URL".to_owned(),
            name => format!("POSTROOM_TEST_{}_URL", name.to_uppercase()),
        };
        let export = contributing.lines().find(|line| line.contains(&variable));
        let export = export.unwrap_or_else(|| panic!("{variable} is not in CONTRIBUTING.md"));
        assert!(
            export.contains(&format!("127.0.0.1:{}", port(&name, &service))),
            "{export}"
        );
    }
}
