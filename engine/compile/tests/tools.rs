use super::*;

#[test]
fn what_is_never_used_is_named() {
    check(
        &format!(
            "\
=== tools
tools:
  - {{agent: [M, A], file: t.py, function: f}}
  - {{agent: A, file: t.py, function: g, auto_tool_call: true}}
  - {{agent: A, file: t.py, function: h, bind_to_agent: false}}
  - agent: M
    file: t.py
    function: i
    outcome: {{context_key: c, attempts_key: d, values: [good, poor], error_value: unchecked, retry_on: [poor, pore, unchecked]}}
mcp_servers:
  - {{name: s, agent: [H, M], command: [x], tools: [t]}}
=== middleware
prompt_middleware:
  - {{agent: M, filename: m.py, function: f}}
  - {{agent: H, filename: m.py, function: f}}
  - {{agent: all, filename: m.py, function: f}}
{AGENTS}  - {{name: M, system_message: m}}
  - {{name: H, runtime: {{kind: human, question: q}}}}
=== orchestrator
initial_agent: M
"
        ),
        nothing,
        expect![[r#"
            warning MZ208 middleware:3:13 `f` is not run: `H` (`kind: human`) reads no prompt that it could rewrite
            warning MZ208 tools:2:17 `f` is never called by `A`: what is `kind: scripted` calls no tools
            warning MZ208 tools:8:14 an `outcome` is accepted but not acted on without `auto_tool_call: true`: what a model calls tells the model alone
            error MZ204 tools:8:111 `pore` is no outcome of this tool (poor?)
            warning MZ208 tools:10:23 no tool of `s` is ever called by `H`: what is `kind: human` calls no tools
        "#]],
    );
}
