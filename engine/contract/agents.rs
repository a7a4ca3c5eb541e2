//! `agents.yaml`, and the shared `agents/<Name>.yaml`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    name::{Name, Names},
    runtime::Runtime,
};

/// The agents of a workflow. One that is not found here is looked up as `agents/<Name>.yaml` beside the `workflows` folder.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Agents", example = example())]
pub struct Agents {
    /// One entry an agent, each with a name of its own.
    pub agents: Vec<Agent>,
}

/// One agent: what it is told, how it is asked, and what it may change.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Agent", example = example_agent())]
pub struct Agent {
    /// The name by which batches, transitions and plans speak of this agent.
    pub name: Name,
    /// What this agent is for, in a sentence for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The instruction, in sections that are joined by an empty line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prompt_sections: Vec<PromptSection>,
    /// The instruction in sections, used when there are no `prompt_sections`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prompt_sections_custom: Vec<PromptSection>,
    /// The instruction in one piece, used when there are no sections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_message: Option<String>,
    /// How this agent is asked: a model, a program, a template, or replies written down. Without it, the workflow's default; without that, `openai`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<Runtime>,
    /// The capabilities that this agent serves: a task of a DAG that names one of them is done by it.
    #[serde(default, skip_serializing_if = "Names::is_empty")]
    pub capabilities: Names,
    /// Context variables that this agent's accepted output sets: the name of a declared variable, and the dotted path of its value in the output. An empty path means the whole output.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub writes: BTreeMap<Name, String>,
    /// Whether a task takes the output that equal work had in an earlier run, instead of asking this agent. Work is equal if the agent's definition, its prompt, the variables it sees, the task, the outputs before it and the model are.
    #[serde(default)]
    pub cache: bool,
    /// Whether this agent must answer with the model that `structured_outputs.yaml` registers for it.
    #[serde(default)]
    pub structured_outputs_required: bool,
    /// When a person is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-not-acted-on" = "no person is asked during a run"))]
    pub human_input_mode: Option<String>,
    /// How often the agent may answer itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0), extend("x-not-acted-on" = "`max_turns` of orchestrator.yaml bounds a run"))]
    pub max_consecutive_auto_reply: Option<u32>,
    /// What happens to a turn that was under way when a run is taken up again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-not-acted-on" = "turns are not replayed"))]
    pub pending_turn_replay: Option<PendingTurnReplay>,
    /// Whether the agent may be shown pictures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-not-acted-on" = "agents are asked with text"))]
    pub multimodal_inputs_enabled: Option<bool>,
    /// Whether the agent may make pictures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-not-acted-on" = "agents answer with text"))]
    pub image_generation_enabled: Option<bool>,
    /// How pictures are made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-not-acted-on" = "agents answer with text"))]
    pub image_generation: Option<serde_json::Map<String, Value>>,
    /// Whether the agent has a shell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-not-acted-on" = "built-in tools are not offered"))]
    pub sandbox_shell: Option<bool>,
    /// Whether the agent may search the web.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-not-acted-on" = "built-in tools are not offered"))]
    pub web_search: Option<bool>,
    /// Whether the agent may read pages of the web.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-not-acted-on" = "built-in tools are not offered"))]
    pub web_fetch: Option<bool>,
    /// Whether the agent may search by DuckDuckGo.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-not-acted-on" = "built-in tools are not offered"))]
    pub duck_search: Option<bool>,
}

impl Agent {
    /// The instruction: sections, else custom sections, else the system message; joined by an empty line.
    pub fn instruction(&self) -> Option<String> {
        let sections = [&self.prompt_sections, &self.prompt_sections_custom];
        match sections.into_iter().find(|it| !it.is_empty()) {
            Some(sections) => {
                let texts = sections.iter().map(|it| match it.heading.trim() {
                    "" => it.content.trim().to_owned(),
                    heading => format!("{heading}\n{}", it.content.trim()),
                });
                Some(texts.collect::<Vec<_>>().join("\n\n"))
            }
            None => self.system_message.clone(),
        }
    }
}

/// One section of an instruction.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PromptSection {
    /// A name for people and tools; agents do not see it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The line above the content, such as `[ROLE]`.
    #[serde(default)]
    pub heading: String,
    /// What the agent is told.
    #[schemars(regex(pattern = r"\S"))]
    pub content: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PendingTurnReplay {
    /// It may be asked again.
    Allow,
    /// It may not be asked again.
    Block,
}

fn example() -> Value {
    json!({ "agents": [example_agent()] })
}

fn example_agent() -> Value {
    json!({
        "name": "Greeter",
        "system_message": "Greet by name, in one sentence.",
        "runtime": { "kind": "template", "output": "text", "template": "Hello {{ input }}" }
    })
}
