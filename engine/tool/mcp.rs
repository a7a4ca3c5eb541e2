//! Servers of tools: each started by the first call, and kept for the next.
//!
//! **Invariant:** whatever a server says or does, a call ends in its time; a server ends with the run.

use std::{
    error::Error,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use rmcp::{
    RoleClient,
    model::{
        CallToolRequestParams, CallToolResult, ClientConfig, ContentBlock, Implementation,
        PaginatedRequestParams, ResourceContents, Tool,
    },
    service::{ClientInitializeError, RunningService, ServiceError, serve_client},
    transport::{
        async_rw::AsyncRwTransport,
        streamable_http_client::{
            StreamableHttpClientTransport, StreamableHttpClientTransportConfig, StreamableHttpError,
        },
    },
};
use serde_json::{Map, Value};
use tokio::{
    sync::{Mutex, watch},
    task::{JoinSet, yield_now},
    time::timeout,
};

use self::measured::Measured;
use super::{MAX_BYTES, ToolError, Tools, printed::Printed, way::late};
use crate::{
    child::{self, DRAIN, Ends, Group, Program, env::Env},
    compile::tools::{Reached, ServerSpec, ToolSpecs},
    endpoint::{self, Secrets, cause},
    prompt::cut,
};

mod measured;

/// The longest message of a server, in bytes: a result, each character as an escape.
const MAX_MESSAGE: usize = 6 * MAX_BYTES;
/// How many pages of tools are read.
const MAX_PAGES: usize = 100;
/// How much of a description and of a schema a model is shown at most, in bytes.
const MAX_DESCRIPTION: usize = 8 << 10;
const MAX_SCHEMA: usize = 128 << 10;
/// How long one that was late has to answer anything, before it is started anew.
const PATIENCE: Duration = Duration::from_secs(1);
/// How much is told of what went wrong.
const MAX_SAID: usize = 4 << 10;

type Service = RunningService<RoleClient, ClientConfig>;

/// A server, started when it is needed.
#[derive(Debug)]
pub(super) struct Server {
    name: Arc<str>,
    way: Way,
    secrets: Secrets,
    running: Mutex<Option<Arc<Running>>>,
    /// What its program said beside the protocol, as far as that was not told.
    printed: Arc<Printed>,
}

#[derive(Debug)]
enum Way {
    Program(Program),
    Url {
        url: String,
        client: reqwest::Client,
    },
    /// It cannot be reached, and why.
    Nowhere(String),
}

/// A server that runs. Dropped, it ends.
#[derive(Debug)]
struct Running {
    service: Service,
    tools: Vec<Tool>,
    /// How its program ended, once it has.
    ended: watch::Receiver<Option<String>>,
    program: JoinSet<()>,
    /// Whether the last call came to no end in its time.
    is_late: AtomicBool,
    /// How many of its messages were too long to be read.
    too_long: watch::Receiver<usize>,
}

impl Tools {
    /// Ends the servers, which may say goodbye. Those that are not told end as well, at once.
    pub async fn close(&self) {
        for tool in &self.tools {
            if let super::Way::Served { server, .. } = &tool.way {
                server.close().await;
            }
        }
    }
}

impl Server {
    pub(super) fn new(spec: &ServerSpec, specs: &ToolSpecs, env: &Env) -> Server {
        let mut secrets = Secrets::default();
        let way = match &spec.reached {
            Reached::Program { argv } => {
                Way::Program(Program::new(argv, &specs.env, None, &specs.folder, env))
            }
            Reached::Url {
                url,
                headers,
                allow_plain_http,
            } => {
                let address = endpoint::address(url, *allow_plain_http).map_err(|it| it.why);
                let headers = endpoint::headers(headers, env, &mut secrets);
                let client = headers
                    .map_err(|it| it.to_string())
                    .and_then(|it| endpoint::client(it).map_err(|it| it.to_string()));
                match address.and_then(|url| Ok((url, client?))) {
                    Ok((url, client)) => Way::Url {
                        url: url.into(),
                        client,
                    },
                    Err(why) => Way::Nowhere(why),
                }
            }
        };
        Server {
            name: Arc::clone(&spec.name),
            way,
            secrets,
            running: Mutex::default(),
            printed: Arc::default(),
        }
    }

    /// What it says of one of its tools: a description, and the arguments as a JSON Schema.
    pub(super) async fn describe(
        &self,
        tool: &str,
        limit: Duration,
    ) -> Result<(String, Value), ToolError> {
        let begun = Instant::now();
        let running = self.ready(limit).await?;
        let has_it = |tools: &[Tool]| tools.iter().find(|it| it.name == tool).cloned();
        let found = match has_it(&running.tools) {
            Some(found) => found,
            None => {
                // It may have got it meanwhile.
                let left = limit.saturating_sub(begun.elapsed());
                let tools = timeout(left, self.tools(&running)).await;
                let tools = tools.map_err(|it| late(limit, &it))??;
                has_it(&tools).ok_or_else(|| {
                    let names: Vec<&str> = tools.iter().map(|it| &*it.name).collect();
                    let names = cut(&names.join(", "), MAX_SAID);
                    self.error(format!("it has no tool `{tool}`; it has {names}"))
                })?
            }
        };
        let schema = Value::Object((*found.input_schema).clone());
        if schema.to_string().len() > MAX_SCHEMA {
            return Err(self.error(format!(
                "the parameters of its tool `{tool}` are longer than {MAX_SCHEMA} bytes"
            )));
        }
        let description = found.description.as_deref().unwrap_or_default();
        Ok((cut(description, MAX_DESCRIPTION), schema))
    }

    /// Calls one of its tools. Gives the text of the result, and its value where it has one.
    pub(super) async fn call(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
        limit: Duration,
    ) -> Result<(String, Option<Value>), ToolError> {
        let begun = Instant::now();
        let running = self.ready(limit).await?;
        let request = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        let left = limit.saturating_sub(begun.elapsed());
        let unread = unread(&running);
        // A call that is dropped is called off.
        let result = tokio::select! {
            biased;
            result = timeout(left, running.service.peer().call_tool(request)) => result,
            () = unread => {
                let most = MAX_MESSAGE;
                return Err(self.error(format!("it sent a message of more than {most} bytes")));
            }
        };
        running.is_late.store(result.is_err(), Ordering::Relaxed);
        match result.map_err(|it| late(limit, &it))? {
            Ok(result) => self.result(result),
            Err(error) => Err(self.failed(&running, &error).await),
        }
    }

    /// The server that runs, or another, if there is one in time.
    async fn ready(&self, limit: Duration) -> Result<Arc<Running>, ToolError> {
        let running = timeout(limit, self.running()).await;
        running.unwrap_or_else(|_| {
            let seconds = limit.as_secs_f64();
            Err(self.error(format!("it was not ready within {seconds} seconds")))
        })
    }

    /// What its program said since this was asked last, by whichever of its tools.
    pub(super) async fn said(&self) -> String {
        // What it said before its result can be read by now: whoever reads it has a turn.
        for _ in 0..3 {
            yield_now().await;
        }
        self.printed.take()
    }

    fn result(&self, result: CallToolResult) -> Result<(String, Option<Value>), ToolError> {
        let mut text = String::new();
        for block in &result.content {
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(&shown(block));
        }
        if let (Some(value), true) = (&result.structured_content, text.is_empty()) {
            text = value.to_string();
        }
        if text.len() > MAX_BYTES {
            let message =
                format!("the result is longer than the {MAX_BYTES} bytes that are allowed");
            return Err(ToolError(message));
        }
        match result.is_error {
            Some(true) => Err(ToolError(match text.trim() {
                "" => "the tool failed and said nothing".to_owned(),
                said => cut(&self.secrets.hide(said), MAX_SAID),
            })),
            _ => Ok((self.secrets.hide(&text), result.structured_content)),
        }
    }

    /// The server that runs, or another. One that has ended is started anew.
    async fn running(&self) -> Result<Arc<Running>, ToolError> {
        let mut running = self.running.lock().await;
        if let Some(running) = &*running
            && !running.service.peer().is_transport_closed()
            && running.ended.borrow().is_none()
            && self.still_answers(running).await
        {
            return Ok(Arc::clone(running));
        }
        *running = None;
        let started = Arc::new(self.start().await?);
        *running = Some(Arc::clone(&started));
        Ok(started)
    }

    /// Whether one that was late answers anything. Where somebody else waits for it, that is taken for granted.
    async fn still_answers(&self, running: &Arc<Running>) -> bool {
        if !running.is_late.load(Ordering::Relaxed) || Arc::strong_count(running) > 1 {
            return true;
        }
        let page = PaginatedRequestParams::default();
        let asked = running.service.peer().list_tools(Some(page));
        timeout(PATIENCE, asked).await.is_ok()
    }

    async fn close(&self) {
        let running = self.running.lock().await.take();
        let Some(mut running) = running.and_then(Arc::into_inner) else {
            return;
        };
        let _ = running.service.close_with_timeout(DRAIN).await;
        if !running.program.is_empty() {
            // Its input is closed. It is killed if it takes longer.
            let _ = timeout(DRAIN, running.ended.wait_for(Option::is_some)).await;
        }
    }

    async fn start(&self) -> Result<Running, ToolError> {
        let mut program = JoinSet::new();
        let (ends, mut ended) = watch::channel(None);
        let (measured, too_long) = watch::channel(0);
        let name = Implementation::new("mozaiks", env!("CARGO_PKG_VERSION"));
        let client = ClientConfig::new(Default::default(), name);
        let service = match &self.way {
            Way::Nowhere(why) => return Err(self.error(why.clone())),
            Way::Url { url, client: http } => {
                let config = StreamableHttpClientTransportConfig::with_uri(url.as_str())
                    .max_json_response_size(MAX_MESSAGE)
                    .max_sse_event_size(MAX_MESSAGE);
                let transport = StreamableHttpClientTransport::with_client(http.clone(), config);
                serve_client(client, transport).await
            }
            Way::Program(it) => {
                let mut group =
                    Group::start(it).map_err(|error| self.error(it.not_started(&error)))?;
                let (stdin, stdout) = (group.child.stdin().take(), group.child.stdout().take());
                program.spawn(attend(group, ends, Arc::clone(&self.printed)));
                let (Some(stdin), Some(stdout)) = (stdin, stdout) else {
                    return Err(self.error("its program has no pipes".to_owned()));
                };
                let stdout = Measured::new(stdout, MAX_MESSAGE, measured);
                let transport = AsyncRwTransport::new_client(stdout, stdin);
                serve_client(client, transport.with_max_line_length(MAX_MESSAGE)).await
            }
        };
        let service = match service {
            Ok(service) => service,
            Err(error) => {
                let why = match &error {
                    ClientInitializeError::TransportError { error, .. } => deepest(error),
                    other => other.to_string(),
                };
                return Err(self.explained(why, &mut ended).await);
            }
        };
        let mut running = Running {
            service,
            tools: Vec::new(),
            ended,
            program,
            is_late: AtomicBool::new(false),
            too_long,
        };
        running.tools = self.tools(&running).await?;
        Ok(running)
    }

    /// All tools that it has.
    async fn tools(&self, running: &Running) -> Result<Vec<Tool>, ToolError> {
        let mut tools = Vec::new();
        let mut cursor = None;
        for _ in 0..MAX_PAGES {
            let page = PaginatedRequestParams::default().with_cursor(cursor);
            let page = running.service.peer().list_tools(Some(page)).await;
            let page = match page {
                Ok(page) => page,
                Err(error) => return Err(self.failed(running, &error).await),
            };
            tools.extend(page.tools);
            cursor = page.next_cursor;
            if cursor.is_none() {
                return Ok(tools);
            }
        }
        Err(self.error(format!("its tools do not end within {MAX_PAGES} pages")))
    }

    /// Why a request failed.
    async fn failed(&self, running: &Running, error: &ServiceError) -> ToolError {
        match error {
            ServiceError::McpError(error) => self.error(cut(&error.message, MAX_SAID)),
            ServiceError::TransportClosed => {
                let closed = "it closed the connection".to_owned();
                self.explained(closed, &mut running.ended.clone()).await
            }
            other => {
                self.explained(deepest(other), &mut running.ended.clone())
                    .await
            }
        }
    }

    /// How its program ended, if it did, says more than that the connection broke.
    async fn explained(
        &self,
        error: String,
        ended: &mut watch::Receiver<Option<String>>,
    ) -> ToolError {
        let how = timeout(DRAIN, ended.wait_for(Option::is_some)).await;
        let how = how.ok().and_then(Result::ok);
        let how = how.and_then(|it| it.clone());
        self.error(how.unwrap_or_else(|| cut(&error, MAX_SAID)))
    }

    fn error(&self, what: String) -> ToolError {
        let what = self.secrets.hide(&what);
        ToolError(format!("the tool server `{}`: {what}", self.name))
    }
}

/// Hears what a program says beside the protocol, to its end.
async fn attend(mut group: Group, ends: watch::Sender<Option<String>>, printed: Arc<Printed>) {
    let mut said = Ends::default();
    let stderr = group.child.stderr().take();
    let status = {
        let hear = child::listen(stderr, |it| {
            said.push(it);
            printed.push(it);
        });
        tokio::pin!(hear);
        let mut hears = true;
        let status = loop {
            tokio::select! {
                () = &mut hear, if hears => hears = false,
                status = group.child.inner_mut().wait() => break status,
            }
        };
        group.end();
        if hears {
            // What it said last says why.
            let _ = timeout(DRAIN, hear).await;
        }
        status
    };
    let how = match status {
        Ok(status) => format!("it ended: {status}"),
        Err(error) => format!("it ended: {error}"),
    };
    ends.send_replace(Some(match said.to_string().trim() {
        "" => how,
        said => format!("{how}; it said: {said}"),
    }));
}

/// Waits for a message that is too long to be read, if it can only be the answer to the one who waits.
fn unread(running: &Arc<Running>) -> impl Future<Output = ()> {
    // Those who keep it for the next call, and who makes this one.
    const ALONE: usize = 2;
    let mut too_long = running.too_long.clone();
    too_long.mark_unchanged();
    async move {
        while too_long.changed().await.is_ok() {
            if Arc::strong_count(running) == ALONE {
                return;
            }
        }
        std::future::pending().await
    }
}

/// What an error comes from.
fn deepest(error: &(dyn Error + 'static)) -> String {
    let mut link = Some(error);
    while let Some(it) = link {
        // It does not say what it comes from.
        if let Some(StreamableHttpError::<reqwest::Error>::Client(source)) = it.downcast_ref() {
            return cause::deepest(source);
        }
        link = it.source();
    }
    cause::deepest(error)
}

/// A piece of a result. What is no text is named.
fn shown(block: &ContentBlock) -> String {
    match block {
        ContentBlock::Text(it) => it.text.clone(),
        ContentBlock::Image(it) => format!("[an image, {}]", it.mime_type),
        ContentBlock::Audio(it) => format!("[a sound, {}]", it.mime_type),
        ContentBlock::Resource(it) => match &it.resource {
            ResourceContents::TextResourceContents { text, .. } => text.clone(),
            ResourceContents::BlobResourceContents { uri, .. } => format!("[a file, {uri}]"),
            _ => "[a resource]".to_owned(),
        },
        ContentBlock::ResourceLink(it) => format!("[a link, {}]", it.uri),
        _ => "[something else]".to_owned(),
    }
}
