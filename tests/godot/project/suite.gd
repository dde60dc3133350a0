extends Node
## A group of tests: every method whose name starts with `test_`. Fresh for each round.

const MODEL := "SmolLM2-135M-Instruct"
## Reading this takes the model a while: about 700 tokens.
const LONG := "The road to the old mill is long and full of stones, and nobody has walked it since spring. "

## How often the suites have run before in this process.
var round_number := 0
var problems := PackedStringArray()


func check(holds: bool, problem: String) -> void:
	if not holds:
		problems.append(problem)


func check_equal(value: Variant, expected: Variant, what: String) -> void:
	check(value == expected, "%s is %s, not %s" % [what, value, expected])


## A greedy request for a short answer.
func body(question: String, more: Dictionary = {}) -> Dictionary:
	var request := {
		"model": MODEL,
		"messages": [{"role": "user", "content": question}],
		"temperature": 0,
		"max_tokens": 12,
	}
	request.merge(more, true)
	return request


## A request whose prompt takes long to read.
func long_body() -> Dictionary:
	return body(LONG.repeat(35), {"max_tokens": 4})


func content(response: Dictionary) -> String:
	return response.choices[0].message.content if response.has("choices") else ""


func reason(response: Dictionary) -> String:
	return response.choices[0].finish_reason if response.has("choices") else str(response.get("error"))


## The next request works: what a test did before has broken nothing.
func check_still_answers() -> void:
	var response: Dictionary = await atelico.chat(body("Say hello.", {"max_tokens": 3})).finished()
	check(content(response) != "", "the next request gave %s" % response)


func frames(n: int) -> void:
	for i in n:
		await get_tree().process_frame
