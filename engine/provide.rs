//! Serves the capabilities of a workflow's agents over ACMP: the provider's side of connections.
//!
//! **Invariant:** a task is carried out once, however often and over however many connections it is asked for, as long as its result is remembered.
//! **Invariant:** what buyers can make it hold is bounded: connections, tasks under way and their inputs, results on their way or remembered. Those at one address get no more than a share of it.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use anyhow::Context as _;
use tokio::{net::TcpListener, sync::Semaphore, task::JoinSet, time::sleep};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::{
    acmp::link::Link,
    agent::Agent,
    compile::{AgentSpec, Workflow},
    tool::Tools,
};

mod connection;
mod inputs;
mod network;
mod patience;
mod peers;
mod pieces;
mod places;
mod secure;
mod tasks;
mod work;

use peers::Peers;
use places::Places;
use tasks::Tasks;

pub use secure::certificate;

/// How long nobody is let in after that went wrong.
const BREATH: Duration = Duration::from_millis(10);

/// How much is served at once, and held.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Where more come, those have to go that have nothing to do.
    pub connections: usize,
    /// Tasks that are carried out at the same time; others wait.
    pub running: usize,
    /// Tasks that one connection may have open.
    pub open: usize,
    pub message_bytes: usize,
    /// How large messages that are not whole yet may be together; of each its share may come in any case.
    pub partial_bytes: usize,
    /// Results that are remembered, and how large they may be together.
    pub remembered: usize,
    pub remembered_bytes: usize,
    /// How often a buyer is told that its task is under way.
    pub heartbeat: Duration,
    pub timeout: Duration,
    /// How long tasks under way may go on when the provider is told to stop.
    pub grace: Duration,
    /// How long a buyer may take none of what it is sent.
    pub patience: Duration,
    /// How large the tasks under way may be together.
    pub open_bytes: usize,
    /// How large results may be together that were sent and not taken yet.
    pub unsent_bytes: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: 256,
            running: 64,
            open: 4096,
            message_bytes: 16 << 20,
            partial_bytes: 128 << 20,
            remembered: 100_000,
            remembered_bytes: 256 << 20,
            heartbeat: Duration::from_secs(5),
            timeout: Duration::from_secs(600),
            grace: Duration::from_secs(10),
            patience: Duration::from_secs(30),
            open_bytes: 512 << 20,
            unsent_bytes: 128 << 20,
        }
    }
}

/// Agents that are asked by buyers.
pub struct Provider {
    served: BTreeMap<String, Served>,
    limits: Limits,
    /// What each buyer has to show.
    token: Option<String>,
    tell: Tell,
    tasks: Tasks,
    places: Arc<Places>,
    running: Semaphore,
    max_output_bytes: usize,
    /// What the agents' models may call.
    tools: Tools,
    workflow: String,
}

/// Who serves a capability.
struct Served {
    spec: AgentSpec,
    agent: Arc<dyn Agent>,
    /// What a task takes.
    price_cu: f64,
}

/// Tells whoever runs the provider, in a line, what its buyers are not told.
pub type Tell = Box<dyn Fn(&str) + Send + Sync>;

impl Provider {
    /// Serves the capabilities of a workflow's own agents.
    pub fn new(
        workflow: &Workflow,
        agents: &crate::agent::Agents,
        tools: Tools,
        token: Option<String>,
        limits: Limits,
        tell: Tell,
    ) -> Arc<Provider> {
        let prices = &workflow.acmp.prices_cu;
        let served = workflow.capabilities.iter().map(|(capability, name)| {
            let served = Served {
                spec: workflow.agents[&**name].clone(),
                agent: Arc::clone(&agents[&**name]),
                price_cu: prices.get(&**capability).map_or(0.0, |it| it.0),
            };
            (capability.clone(), served)
        });
        Arc::new(Provider {
            served: served.collect(),
            tasks: Tasks::new(&limits),
            places: Places::new(
                limits.connections,
                limits.partial_bytes,
                Peers::new(&limits),
            ),
            running: Semaphore::new(limits.running),
            limits,
            token,
            tell,
            max_output_bytes: workflow.limits.max_output_bytes,
            tools,
            workflow: workflow.name.to_string(),
        })
    }

    /// Serves the one buyer at the other end of a link, until it is gone or `stop`.
    pub async fn serve(self: &Arc<Provider>, link: Link, stop: &CancellationToken) {
        let nowhere = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        if let Some(place) = self.places.enter(nowhere, false) {
            connection::serve(self, link, &place, stop).await;
        }
    }

    /// Serves whoever connects, until `stop`: those who speak TLS, where there is a certificate to show them.
    ///
    /// # Errors
    /// Nobody can connect.
    pub async fn listen(
        self: &Arc<Provider>,
        listener: TcpListener,
        tls: Option<&TlsAcceptor>,
        stop: &CancellationToken,
    ) -> anyhow::Result<()> {
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                Some(_) = connections.join_next() => (),
                accepted = listener.accept() => {
                    let Ok((stream, address)) = accepted else {
                        // One that is gone already is nobody's trouble; where there is no room for a file, there may be
                        // later.
                        sleep(BREATH).await;
                        continue;
                    };
                    let Some(place) = self.places.enter(address.ip(), true) else { continue };
                    let (provider, tls, stop) = (Arc::clone(self), tls.cloned(), stop.clone());
                    connections.spawn(async move {
                        network::welcome(&provider, stream, tls.as_ref(), &place, &stop).await;
                    });
                }
            }
        }
        while connections.join_next().await.is_some() {}
        Ok(())
    }

    /// Ends what agents and tools hold, when nobody is served any more.
    pub async fn close(&self) {
        for served in self.served.values() {
            served.agent.close().await;
        }
        self.tools.close().await;
    }
}

/// Opens a port.
///
/// # Errors
/// It is taken, or not ours.
pub async fn open(address: SocketAddr) -> anyhow::Result<TcpListener> {
    let listener = TcpListener::bind(address).await;
    listener.with_context(|| format!("cannot listen at `{address}`"))
}

#[cfg(test)]
mod tests;
