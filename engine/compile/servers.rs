//! Servers of tools, and the tools of theirs that agents may call.

use std::time::Duration;

use super::{
    Compiler,
    tools::{Does, Reached, ServerSpec, ToolSpec, ToolSpecs},
};
use crate::{
    contract::{
        name::Name,
        tools::{McpServer, Tools as Written},
    },
    diagnostic::{Code, Diagnostic},
    load::Part,
};

impl Compiler<'_> {
    pub(super) fn servers(&mut self, part: &Part<Written>, specs: &mut ToolSpecs) {
        for (ix, server) in part.value.mcp_servers.iter().enumerate() {
            let at = format!("/mcp_servers/{ix}");
            self.tools_agents(&server.agent, &at, part);
            let Some(reached) = reached(server) else {
                let message = "a tool server has either `command`, or `url`";
                self.push(Diagnostic::error(Code::Rule, message).at(part.at(&at)));
                continue;
            };
            let number = specs.servers.len();
            specs.servers.push(ServerSpec {
                name: server.name.as_str().into(),
                reached,
                at: part.at(&at),
            });
            let timeout = Duration::try_from_secs_f64(server.timeout_seconds);
            for (ix, tool) in server.tools.iter().enumerate() {
                specs.tools.push(ToolSpec {
                    name: server.called(tool).into(),
                    agents: server.agent.names().iter().map(Name::to_string).collect(),
                    does: Does::Served {
                        server: number,
                        tool: tool.to_string(),
                    },
                    description: None,
                    parameters: None,
                    auto: false,
                    bound: true,
                    outcome: None,
                    timeout: timeout.clone().unwrap_or(Duration::MAX),
                    max_result_bytes: server.max_result_bytes,
                    at: part.at(&format!("{at}/tools/{ix}")),
                });
            }
        }
    }
}

fn reached(server: &McpServer) -> Option<Reached> {
    match (server.command.as_slice(), &server.url) {
        ([_, ..], None) if server.headers.is_empty() => Some(Reached::Program {
            argv: server.command.clone(),
        }),
        ([], Some(url)) => Some(Reached::Url {
            url: url.to_string(),
            headers: server.headers.clone(),
            allow_plain_http: server.allow_plain_http,
        }),
        _ => None,
    }
}
