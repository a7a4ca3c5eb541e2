//! Tools and functions that are written down and never used.

use std::collections::BTreeMap;

use super::{AgentSpec, Compiler};
use crate::{
    contract::{
        runtime::Runtime,
        tools::{AgentOrAgents, Tool, ToolType, Tools as Written},
    },
    diagnostic::{Code, Diagnostic, Place},
    load::Part,
};

impl AgentSpec {
    /// Why nothing that models call is called by it.
    fn cannot_call(&self) -> Option<String> {
        let (name, kind) = (&self.name, self.runtime.kind());
        let is_model = matches!(self.runtime, Runtime::Openai { .. });
        (!is_model).then(|| format!("by `{name}`: what is `kind: {kind}` calls no tools"))
    }

    /// Whether what it would be told goes to nobody.
    fn reads_no_prompt(&self) -> bool {
        matches!(
            self.runtime,
            Runtime::Template { .. }
                | Runtime::Scripted { .. }
                | Runtime::Human {
                    question: Some(_),
                    ..
                }
        )
    }
}

impl Compiler<'_> {
    /// Warns of what does nothing.
    pub(super) fn idle(&mut self, agents: &BTreeMap<String, AgentSpec>) {
        let bundle = self.bundle;
        if let Some(part) = &bundle.tools {
            for (ix, tool) in part.value.tools.iter().enumerate() {
                self.idle_tool(tool, &format!("/tools/{ix}"), part, agents);
            }
            for (ix, server) in part.value.mcp_servers.iter().enumerate() {
                let whose = (&server.agent, format!("/mcp_servers/{ix}"));
                let what = format!("no tool of `{}` is ever called", server.name);
                self.uncalled(whose, &what, "", part, agents);
            }
        }
        let Some(part) = &bundle.middleware else {
            return;
        };
        for (ix, written) in part.value.prompt_middleware.iter().enumerate() {
            let Some(agent) = agents.get(&*written.agent) else {
                continue;
            };
            if agent.reads_no_prompt() {
                let message = format!(
                    "`{}` is not run: `{}` (`kind: {}`) reads no prompt that it could rewrite",
                    written.function,
                    agent.name,
                    agent.runtime.kind()
                );
                self.idles(
                    message,
                    part.at(&format!("/prompt_middleware/{ix}/agent")),
                    "",
                );
            }
        }
    }

    fn idle_tool(
        &mut self,
        tool: &Tool,
        at: &str,
        part: &Part<Written>,
        agents: &BTreeMap<String, AgentSpec>,
    ) {
        let Some(name) = tool
            .called()
            .filter(|_| tool.tool_type == ToolType::Agent_Tool)
        else {
            return;
        };
        if !tool.auto_tool_call && tool.bind_to_agent {
            let what = format!("`{name}` is never called");
            let help = "with `auto_tool_call: true` it runs on the agent's answer";
            self.uncalled((&tool.agent, at.to_owned()), &what, help, part, agents);
        }
    }

    /// Warns of each agent that calls nothing, of those that something is for.
    fn uncalled(
        &mut self,
        (whose, at): (&AgentOrAgents, String),
        what: &str,
        help: &str,
        part: &Part<Written>,
        agents: &BTreeMap<String, AgentSpec>,
    ) {
        for (ix, agent) in whose.names().iter().enumerate() {
            let Some(why) = agents.get(&**agent).and_then(AgentSpec::cannot_call) else {
                continue;
            };
            let place = match whose {
                AgentOrAgents::One(_) => part.at(&format!("{at}/agent")),
                AgentOrAgents::Several(_) => part.at(&format!("{at}/agent/{ix}")),
            };
            self.idles(format!("{what} {why}"), place, help);
        }
    }

    fn idles(&mut self, message: String, at: Place, help: &str) {
        let fault = Diagnostic::warning(Code::NotActedOn, message).at(at);
        self.push(match help {
            "" => fault,
            help => fault.help(help),
        });
    }
}
