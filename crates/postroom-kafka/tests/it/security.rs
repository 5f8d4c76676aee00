//! A Kafka with authentication or TLS.

use std::collections::BTreeMap;
use std::time::Duration;

use postroom::ErrorKind;
use postroom_kafka::{Kafka, Login, Mechanism, Options, Security, TopicSpec};
use postroom_testkit::kafka_server::{Server, kafka_guarded};

/// Connects with these security options.
async fn connect(server: &Server, security: Security) -> postroom::Result<()> {
    let mut options = Options::new(server.guarded_url());
    options.security = security;
    options.answer_max = Duration::from_secs(3);
    let spec = TopicSpec {
        name: "guarded".to_owned(),
        partitions: 1,
        replication: 1,
        config: BTreeMap::new(),
    };
    Kafka::new(&options)?.apply(&[spec]).await.map(drop)
}

#[tokio::test]
async fn plain_login_accepts_only_the_right_password() {
    let accounts = r#"listener.name.guarded.sasl.enabled.mechanisms=PLAIN
listener.name.guarded.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_me="hush";
"#;
    let server = kafka_guarded("SASL_PLAINTEXT", accounts).await;
    let login = |password: &str| Security {
        login: Some(Login {
            mechanism: Mechanism::Plain,
            user: "me".to_owned(),
            password: password.to_owned(),
        }),
        tls: None,
    };
    connect(&server, login("hush")).await.unwrap();
    for wrong in [login("guess"), Security::default()] {
        let error = connect(&server, wrong).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    }
}

#[cfg(feature = "tls")]
#[tokio::test]
async fn tls_accepts_only_the_configured_authority() {
    use postroom::Tls;
    use postroom_testkit::certificate::Certificates;

    let (certificates, others) = (Certificates::of("nobody"), Certificates::of("nobody"));
    let line = |file: std::path::PathBuf| std::fs::read_to_string(file).unwrap().replace('\n', "\\n");
    let settings = format!(
        "listener.name.guarded.ssl.keystore.type=PEM\n\
         listener.name.guarded.ssl.keystore.certificate.chain={}\n\
         listener.name.guarded.ssl.keystore.key={}\n\
         listener.name.guarded.ssl.truststore.type=PEM\n\
         listener.name.guarded.ssl.truststore.certificates={}\n\
         listener.name.guarded.ssl.client.auth=required\n",
        line(certificates.certificate()),
        line(certificates.key()),
        line(certificates.authority()),
    );
    let server = kafka_guarded("SSL", &settings).await;
    let tls = |tls: Tls| Security {
        login: None,
        tls: Some(tls),
    };
    connect(&server, tls(certificates.mutual())).await.unwrap();
    for wrong in [others.mutual(), Tls::default(), certificates.trusted()] {
        let error = connect(&server, tls(wrong)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    }
}
