//! `copyrator console`: the console for one person, on the machine of that person.

use std::{
    io,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use copyrator_cli::{
    arguments::ClusterArgs,
    installed::InstalledArgs,
    terminal::{Console, Exit, Threads, block_on, fail, print},
};
use futures::StreamExt as _;
use tokio::net::TcpListener;

use crate::{
    as_caller::connect,
    browser::RedirectFile,
    callers::Callers,
    door::Door,
    entry::{Entry, NoRandomness, TOKEN_LIFE, random},
    guard::Guard,
    routes::routes,
    seat::Seat,
    serve::{ConnectionMetrics, Drain, Limits, serve_plain, tasks::signals},
    site::Site,
};

/// How long requests in flight may take after Ctrl-C.
const LAST_REQUESTS: Duration = Duration::from_secs(1);
/// The maximum number of connections of one user's browser and scripts.
pub(crate) const CONNECTIONS: usize = 64;

/// Show it all in a browser and over HTTP: on this machine only, and with your own rights, as every command has them. It can
/// do nothing that you may not, and it keeps nothing.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  copyrator console --open\n  copyrator console --as alice --as-group team-blue\n  \
    copyrator console --namespaces shop,web\n  copyrator console --listen 127.0.0.1:8001\n  \
    curl -H \"Authorization: Bearer $TOKEN\" http://127.0.0.1:8001/api/v1/whoami\n\n\
    The command prints the page's address with a token that works once, within a minute, and a bearer token for curl that works until the console ends. If you may not list all namespaces, --namespaces names those to show; default: the context's namespace. Ctrl-C ends the console. See docs/console.md for more.\n\n\
    Exit codes: 0 ended; 1 cannot listen; 2 usage; 3 cluster unreachable."
)]
pub struct Args {
    /// Where to listen: an address of this machine alone, port 0 for any free one. For others, forward the port.
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDRESS", value_parser = loopback)]
    listen: SocketAddr,
    /// Open the page in the browser.
    #[arg(long)]
    open: bool,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    console: Console,
    #[command(flatten)]
    installed: InstalledArgs,
}

/// Why the console does not run.
#[derive(Debug, thiserror::Error)]
enum StartError {
    #[error("cannot listen at {address}")]
    Listen {
        address: SocketAddr,
        #[source]
        source: io::Error,
    },
    #[error("cannot reach the cluster")]
    Unreachable(#[source] Box<kube::Error>),
    #[error("a browser cannot reach this address: {0}")]
    Host(String),
    #[error("cannot catch signals")]
    Signals(#[source] io::Error),
    #[error(transparent)]
    Randomness(#[from] NoRandomness),
}

/// Parses a loopback address. A client that reaches the console acts with the caller's rights.
fn loopback(text: &str) -> Result<SocketAddr, String> {
    match text.parse::<SocketAddr>() {
        Ok(address) if address.ip().is_loopback() => Ok(address),
        Ok(_) => {
            Err("the console listens only on loopback, as in 127.0.0.1:8001; for remote access, forward the port (ssh -L)"
                .to_owned())
        }
        Err(_) => Err("write ADDRESS:PORT, as in 127.0.0.1:8001".to_owned()),
    }
}

impl Args {
    /// Runs the command, and returns its exit code.
    pub fn run(self) -> Exit {
        let checked =
            self.cluster.clone().check().and_then(|target| Ok((target, self.installed.clone().check()?)));
        let (target, installed) = match checked {
            Ok(checked) => checked,
            Err(error) => return fail(&error, Exit::Usage),
        };
        block_on(Threads::Many, async {
            let clients = match connect(&target).await {
                Ok(clients) => clients,
                Err(error) => return fail(&error, Exit::Unreachable),
            };
            if let Err(error) = clients.reads.apiserver_version().await
                && !matches!(error, kube::Error::Api(_))
            {
                return fail(&StartError::Unreachable(Box::new(error)), Exit::Unreachable);
            }
            let seat = Seat::of_run(clients, installed, target.in_words());
            match self.serve(seat).await {
                Ok(exit) => exit,
                Err(error) => fail(&error, Exit::Findings),
            }
        })
    }

    async fn serve(&self, seat: Seat) -> Result<Exit, StartError> {
        let signals = signals().map_err(StartError::Signals)?;
        let failed = |source| StartError::Listen { address: self.listen, source };
        let listener = TcpListener::bind(self.listen).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let (entry, printed) = Entry::new(Instant::now())?;
        let host = host(address, &random()?).await;
        let guard = Guard::of_run(&host).map_err(StartError::Host)?;
        let origin = format!("http://{host}");
        let login = format!("{origin}/login#{}", printed.token);
        if print(&format!("page   {login}\napi    {origin}/api/v1\ntoken  {}\n", printed.bearer))
            != Exit::Done
        {
            return Ok(Exit::Findings);
        }
        self.console.note(&format!(
            "open the page's address once, within {} s; the token is for curl (Authorization: Bearer); Ctrl-C ends the console",
            TOKEN_LIFE.as_secs()
        ));
        let redirect =
            self.open.then(|| random().map(|name| RedirectFile::open(&name, &login))).transpose()?;
        if let Some(Err(error)) = &redirect {
            self.console.note(&format!("cannot open a browser ({error}): open the address above"));
        }
        let ended = seat.ended.clone();
        let drain = Drain { signal: ended.clone(), propagation_delay: Duration::ZERO, limit: LAST_REQUESTS };
        let callers = Callers::One { entry, seat: Arc::new(seat) };
        let routes = routes(Arc::new(Door::new(guard, Site::of_run(), callers)));
        let serving = serve_plain(listener, routes, drain, limits(), ConnectionMetrics::default());
        tokio::pin!(signals);
        let until_told = async {
            signals.next().await;
            ended.cancel();
        };
        tokio::join!(serving, until_told);
        Ok(Exit::Done)
    }
}

/// Connection limits for one user.
pub(crate) fn limits() -> Limits {
    Limits {
        max_connections: CONNECTIONS,
        max_connections_a_peer: CONNECTIONS,
        makes_room: true,
        ..Limits::default()
    }
}

/// The host that browsers send: a `.localhost` name of this run if the name resolves to this address, else
/// the address. A separate name keeps the cookies of this run apart from the cookies of other runs and ports.
async fn host(address: SocketAddr, name: &str) -> String {
    let name = format!("{name}.localhost:{}", address.port());
    let leads_here = match tokio::net::lookup_host(name.clone()).await {
        Ok(mut found) => found.any(|found| found == address),
        Err(_) => false,
    };
    if leads_here { name } else { address.to_string() }
}
