extends Node
## A scene whose character starts talking by itself.


func _ready() -> void:
	($Innkeeper as AtelicoChat).ask("Tell me the whole story of your inn.")
