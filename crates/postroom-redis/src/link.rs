//! A connection that is made when it is needed and made again after trouble, with a limit on the time of every step.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use postroom::{Error, ErrorKind, Result};
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, Cmd, FromRedisValue, Pipeline, RedisError, RedisResult, ServerErrorKind, Value,
};
use tokio::time::timeout;

use crate::script::{Call, Hashed};

/// One connection to the server, shared by whoever needs no answer of its own turn.
pub(crate) struct Link {
    client: Client,
    limit: Duration,
    slot: Mutex<Slot>,
}

/// The connection, and how many there were before it: who meets trouble on an old one does not close a new one.
#[derive(Default)]
struct Slot {
    number: u64,
    connection: Option<MultiplexedConnection>,
}

type Numbered = (u64, MultiplexedConnection);

/// Why there is no answer.
enum Trouble {
    /// The connection broke.
    Broken(Error),
    /// It cannot be made, or nothing came in time.
    Other(Error),
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}

impl Link {
    pub(crate) fn new(client: &Client, limit: Duration) -> Self {
        Self {
            client: client.clone(),
            limit,
            slot: Mutex::default(),
        }
    }

    /// Runs a script.
    pub(crate) async fn call<T: FromRedisValue>(&self, doing: &str, call: Call) -> Result<T> {
        let mut pipeline = heedless();
        pipeline.add_command(call.command);
        let mut answers = self.run(doing, call.script, &pipeline).await?.into_iter();
        read(doing, answers.next())
    }

    /// Runs a script, then waits until so many replicas have what it wrote.
    pub(crate) async fn call_and_wait<T: FromRedisValue>(&self, doing: &str, call: Call, replicas: u32) -> Result<T> {
        let mut pipeline = heedless();
        pipeline.add_command(call.command);
        self.wait_for(replicas, &mut pipeline);
        let mut answers = self.run(doing, call.script, &pipeline).await?;
        reached(doing, replicas, answers.pop())?;
        read(doing, answers.into_iter().next())
    }

    /// Runs commands, then waits until so many replicas have what they wrote; answers each.
    pub(crate) async fn commands(
        &self,
        doing: &str,
        commands: Vec<Cmd>,
        replicas: u32,
    ) -> Result<Vec<RedisResult<Value>>> {
        let mut pipeline = heedless();
        for command in commands {
            pipeline.add_command(command);
        }
        if replicas == 0 {
            return self.send(doing, &pipeline).await;
        }
        self.wait_for(replicas, &mut pipeline);
        let mut answers = self.send(doing, &pipeline).await?;
        reached(doing, replicas, answers.pop())?;
        Ok(answers)
    }

    /// In one go with what is waited for: on another connection the server would know of nothing to wait for.
    fn wait_for(&self, replicas: u32, pipeline: &mut Pipeline) {
        let wait_ms = self.limit.as_millis() / 2;
        pipeline.cmd("WAIT").arg(replicas).arg(wait_ms.to_string());
    }

    /// Runs one command.
    pub(crate) async fn command<T: FromRedisValue>(&self, doing: &str, command: Cmd) -> Result<T> {
        let mut pipeline = heedless();
        pipeline.add_command(command);
        read(doing, self.send(doing, &pipeline).await?.into_iter().next())
    }

    /// The answers to a pipeline that begins with a script; one the server has forgotten is loaded first.
    async fn run(&self, doing: &str, script: &Hashed, pipeline: &Pipeline) -> Result<Vec<RedisResult<Value>>> {
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

    /// The server's answers, good or bad; an error when there are none. A connection that broke while nobody looked shows
    /// it now: then it is asked once more on a new one. What the server did twice thereby, it did in the same order.
    async fn send(&self, doing: &str, pipeline: &Pipeline) -> Result<Vec<RedisResult<Value>>> {
        let used = self.used();
        let is_used = used.is_some();
        match self.ask(doing, pipeline, used).await {
            Err(Trouble::Broken(_)) if is_used => self.ask(doing, pipeline, None).await,
            answers => answers,
        }
        .map_err(|trouble| match trouble {
            Trouble::Broken(error) | Trouble::Other(error) => error,
        })
    }

    async fn ask(
        &self,
        doing: &str,
        pipeline: &Pipeline,
        used: Option<Numbered>,
    ) -> Result<Vec<RedisResult<Value>>, Trouble> {
        let (number, mut connection) = match used {
            Some(used) => used,
            None => self.connect(doing).await.map_err(Trouble::Other)?,
        };
        let answer = timeout(self.limit, pipeline.query_async(&mut connection)).await;
        let trouble = match answer {
            Ok(Ok(answers)) => return Ok(answers),
            Ok(Err(error)) if error.is_connection_dropped() => Trouble::Broken(failed(doing, error)),
            Ok(Err(error)) => Trouble::Other(failed(doing, error)),
            Err(_late) => Trouble::Other(late(doing, self.limit)),
        };
        self.forget(number);
        Err(trouble)
    }

    fn used(&self) -> Option<Numbered> {
        let slot = self.slot();
        let connection = slot.connection.clone()?;
        Some((slot.number, connection))
    }

    async fn connect(&self, doing: &str) -> Result<Numbered> {
        let connection = connect(&self.client, doing, self.limit, self.limit).await?;
        let mut slot = self.slot();
        slot.number += 1;
        slot.connection = Some(connection.clone());
        Ok((slot.number, connection))
    }

    fn forget(&self, number: u64) {
        let mut slot = self.slot();
        if slot.number == number {
            slot.connection = None;
        }
    }

    fn slot(&self) -> MutexGuard<'_, Slot> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A new connection whose answers may take so long.
pub(crate) async fn connect(
    client: &Client,
    doing: &str,
    limit: Duration,
    answer: Duration,
) -> Result<MultiplexedConnection> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(limit))
        .set_response_timeout(Some(answer));
    match timeout(limit, client.get_multiplexed_async_connection_with_config(&config)).await {
        Ok(Ok(connection)) => Ok(connection),
        Ok(Err(error)) => Err(failed(doing, error)),
        Err(_late) => Err(late(doing, limit)),
    }
}

/// A pipeline that answers each command for itself.
fn heedless() -> Pipeline {
    let mut pipeline = redis::pipe();
    pipeline.ignore_errors();
    pipeline
}

/// An answer in the shape that was expected.
fn read<T: FromRedisValue>(doing: &str, answer: Option<RedisResult<Value>>) -> Result<T> {
    let value = answer.unwrap_or(Ok(Value::Nil)).map_err(|error| failed(doing, error))?;
    T::from_redis_value(value).map_err(|error| failed(doing, error.into()))
}

/// Whether so many replicas have it.
fn reached(doing: &str, wanted: u32, answer: Option<RedisResult<Value>>) -> Result<()> {
    let reached: u32 = read(doing, answer)?;
    if reached < wanted {
        return Err(Error::new(
            ErrorKind::Unavailable,
            format!("{doing}: {reached} of {wanted} replicas have it"),
        ));
    }
    Ok(())
}

fn late(doing: &str, limit: Duration) -> Error {
    Error::new(
        ErrorKind::Unavailable,
        format!("{doing}: Redis has not answered within {limit:?}"),
    )
}

/// The driver's error as ours.
pub(crate) fn failed(doing: &str, error: RedisError) -> Error {
    let kind = match error.kind() {
        redis::ErrorKind::Io | redis::ErrorKind::AuthenticationFailed => ErrorKind::Unavailable,
        _ => kind_of(error.code().unwrap_or_default()),
    };
    Error::caused(kind, doing, error)
}

/// What an error of the server means, by its first word. A server that takes nothing now, from anybody (its memory or disk
/// is full, it loads, it is a replica), is away: no entry is to blame.
pub(crate) fn kind_of(words: &str) -> ErrorKind {
    const AWAY: [&str; 12] = [
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
    let code = words.split_ascii_whitespace().next().unwrap_or_default();
    if AWAY.contains(&code) {
        ErrorKind::Unavailable
    } else {
        ErrorKind::Failed
    }
}
