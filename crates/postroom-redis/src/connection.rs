//! A connection that is opened on first use and reopened after an error. Every call has a timeout.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use postroom::{Error, ErrorKind, Result};
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, Cmd, FromRedisValue, Pipeline, RedisError, RedisResult, ServerErrorKind, Value,
};
use tokio::time::timeout;

use crate::script::{Call, HashedScript};

/// Calls of scripts in one request.
const CALLS_MAX: usize = 500;

/// A connection to the server that concurrent callers share.
pub(crate) struct Connection {
    client: Client,
    limit: Duration,
    current: Mutex<CurrentConnection>,
}

/// The current connection and its number. The number prevents that an error on an old connection closes a newer one.
#[derive(Default)]
struct CurrentConnection {
    number: u64,
    connection: Option<MultiplexedConnection>,
}

type Numbered = (u64, MultiplexedConnection);

/// The reason for a missing response.
enum SendError {
    /// The connection was lost.
    Disconnected(Error),
    /// Connecting failed, the driver failed, or the timeout expired.
    Other(Error),
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}

impl Connection {
    pub(crate) fn new(client: &Client, limit: Duration) -> Self {
        Self {
            client: client.clone(),
            limit,
            current: Mutex::default(),
        }
    }

    /// Runs a script.
    pub(crate) async fn call<T: FromRedisValue>(&self, doing: &str, call: Call) -> Result<T> {
        let mut pipeline = independent_pipeline();
        pipeline.add_command(call.command);
        let mut answers = self.run(doing, call.script, &pipeline).await?.into_iter();
        convert(doing, answers.next())
    }

    /// Runs calls of one script, in as few requests as possible. Returns the answer to each.
    pub(crate) async fn calls<T: FromRedisValue>(&self, doing: &str, calls: Vec<Call>) -> Result<Vec<T>> {
        let mut answers = Vec::with_capacity(calls.len());
        let mut calls = calls.into_iter().peekable();
        while let Some(script) = calls.peek().map(|call| call.script) {
            let mut pipeline = independent_pipeline();
            for call in calls.by_ref().take(CALLS_MAX) {
                pipeline.add_command(call.command);
            }
            for answer in self.run(doing, script, &pipeline).await? {
                answers.push(convert(doing, Some(answer))?);
            }
        }
        Ok(answers)
    }

    /// How long a call may take.
    pub(crate) fn limit(&self) -> Duration {
        self.limit
    }

    /// Runs a script, then waits until this many replicas have its writes.
    pub(crate) async fn call_and_wait<T: FromRedisValue>(&self, doing: &str, call: Call, replicas: u32) -> Result<T> {
        let mut pipeline = independent_pipeline();
        pipeline.add_command(call.command);
        self.wait_for(replicas, &mut pipeline);
        let mut answers = self.run(doing, call.script, &pipeline).await?;
        check_replicas(doing, replicas, answers.pop())?;
        convert(doing, answers.into_iter().next())
    }

    /// Runs commands, then waits until this many replicas have their writes. Returns the result of each command.
    pub(crate) async fn commands(
        &self,
        doing: &str,
        commands: Vec<Cmd>,
        replicas: u32,
    ) -> Result<Vec<RedisResult<Value>>> {
        let mut pipeline = independent_pipeline();
        for command in commands {
            pipeline.add_command(command);
        }
        if replicas == 0 {
            return self.send(doing, &pipeline).await;
        }
        self.wait_for(replicas, &mut pipeline);
        let mut answers = self.send(doing, &pipeline).await?;
        check_replicas(doing, replicas, answers.pop())?;
        Ok(answers)
    }

    /// Adds WAIT to the pipeline of the writes, because WAIT only covers writes of its own connection.
    fn wait_for(&self, replicas: u32, pipeline: &mut Pipeline) {
        let wait_ms = self.limit.as_millis() / 2;
        pipeline.cmd("WAIT").arg(replicas).arg(wait_ms.to_string());
    }

    /// Runs one command.
    pub(crate) async fn command<T: FromRedisValue>(&self, doing: &str, command: Cmd) -> Result<T> {
        let mut pipeline = independent_pipeline();
        pipeline.add_command(command);
        convert(doing, self.send(doing, &pipeline).await?.into_iter().next())
    }

    /// Sends a pipeline that starts with a script. Loads the script first if the server does not know it.
    async fn run(&self, doing: &str, script: &HashedScript, pipeline: &Pipeline) -> Result<Vec<RedisResult<Value>>> {
        let answers = self.send(doing, pipeline).await?;
        let Some(Err(error)) = answers.first() else {
            return Ok(answers);
        };
        if error.kind() != redis::ErrorKind::Server(ServerErrorKind::NoScript) {
            return Ok(answers);
        }
        self.command::<Value>(doing, script.load()).await?;
        self.send(doing, pipeline).await
    }

    /// Returns the server's results of all commands, or an error without a response. If an existing connection was lost, retries
    /// once on a new one. The server may then execute the commands twice, in the same order.
    async fn send(&self, doing: &str, pipeline: &Pipeline) -> Result<Vec<RedisResult<Value>>> {
        let existing = self.existing();
        let is_existing = existing.is_some();
        match self.try_send(doing, pipeline, existing).await {
            Err(SendError::Disconnected(_)) if is_existing => self.try_send(doing, pipeline, None).await,
            answers => answers,
        }
        .map_err(|error| match error {
            SendError::Disconnected(error) | SendError::Other(error) => error,
        })
    }

    async fn try_send(
        &self,
        doing: &str,
        pipeline: &Pipeline,
        existing: Option<Numbered>,
    ) -> Result<Vec<RedisResult<Value>>, SendError> {
        let (number, mut connection) = match existing {
            Some(existing) => existing,
            None => self.connect(doing).await.map_err(SendError::Other)?,
        };
        let answer = timeout(self.limit, pipeline.query_async(&mut connection)).await;
        let error = match answer {
            Ok(Ok(answers)) => return Ok(answers),
            Ok(Err(error)) if error.is_connection_dropped() => SendError::Disconnected(failed(doing, error)),
            Ok(Err(error)) => SendError::Other(failed(doing, error)),
            Err(_late) => SendError::Other(timed_out(doing, self.limit)),
        };
        self.discard(number);
        Err(error)
    }

    fn existing(&self) -> Option<Numbered> {
        let current = self.current();
        let connection = current.connection.clone()?;
        Some((current.number, connection))
    }

    async fn connect(&self, doing: &str) -> Result<Numbered> {
        let connection = connect(&self.client, doing, self.limit, self.limit).await?;
        let mut current = self.current();
        current.number += 1;
        current.connection = Some(connection.clone());
        Ok((current.number, connection))
    }

    fn discard(&self, number: u64) {
        let mut current = self.current();
        if current.number == number {
            current.connection = None;
        }
    }

    fn current(&self) -> MutexGuard<'_, CurrentConnection> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Opens a connection with these timeouts for connecting and for responses.
pub(crate) async fn connect(
    client: &Client,
    doing: &str,
    limit: Duration,
    answer: Duration,
) -> Result<MultiplexedConnection> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(limit))
        .set_response_timeout(Some(answer));
    connect_with(client, doing, limit, &config).await
}

/// Opens a connection with this configuration.
pub(crate) async fn connect_with(
    client: &Client,
    doing: &str,
    limit: Duration,
    config: &AsyncConnectionConfig,
) -> Result<MultiplexedConnection> {
    match timeout(limit, client.get_multiplexed_async_connection_with_config(config)).await {
        Ok(Ok(connection)) => Ok(connection),
        Ok(Err(error)) => Err(failed(doing, error)),
        Err(_late) => Err(timed_out(doing, limit)),
    }
}

/// A pipeline that returns a separate result for each command.
fn independent_pipeline() -> Pipeline {
    let mut pipeline = redis::pipe();
    pipeline.ignore_errors();
    pipeline
}

/// Converts a result to the expected type.
fn convert<T: FromRedisValue>(doing: &str, answer: Option<RedisResult<Value>>) -> Result<T> {
    let value = answer.unwrap_or(Ok(Value::Nil)).map_err(|error| failed(doing, error))?;
    T::from_redis_value(value).map_err(|error| failed(doing, error.into()))
}

/// Fails if fewer replicas than wanted have the writes.
fn check_replicas(doing: &str, wanted: u32, answer: Option<RedisResult<Value>>) -> Result<()> {
    let reached: u32 = convert(doing, answer)?;
    if reached < wanted {
        return Err(Error::new(
            ErrorKind::Unavailable,
            format!("{doing}: {reached} of {wanted} replicas have it"),
        ));
    }
    Ok(())
}

fn timed_out(doing: &str, limit: Duration) -> Error {
    Error::new(
        ErrorKind::Unavailable,
        format!("{doing}: timeout: Redis did not respond within {limit:?}"),
    )
}

/// An error with the failed operation and the driver's error as its cause.
pub(crate) fn failed(doing: &str, error: RedisError) -> Error {
    let kind = match error.kind() {
        redis::ErrorKind::Io | redis::ErrorKind::AuthenticationFailed => ErrorKind::Unavailable,
        _ => kind_of(error.code().unwrap_or_default()),
    };
    Error::caused(kind, doing, error)
}

/// The kind of a server error, by its first word. A server that refuses every write now is unavailable: its memory or disk is
/// full, it is loading, or it is a replica. Such an error does not concern a single entry.
pub(crate) fn kind_of(message: &str) -> ErrorKind {
    const UNAVAILABLE: [&str; 12] = [
        "OOM",
        "MISCONF",
        "READONLY",
        "LOADING",
        "BUSY",
        "NOREPLICAS",
        "MASTERDOWN",
        "CLUSTERDOWN",
        "TRYAGAIN",
        "NOAUTH",
        "WRONGPASS",
        "UNKILLABLE",
    ];
    let code = message.split_ascii_whitespace().next().unwrap_or_default();
    if UNAVAILABLE.contains(&code) {
        ErrorKind::Unavailable
    } else {
        ErrorKind::Failed
    }
}
