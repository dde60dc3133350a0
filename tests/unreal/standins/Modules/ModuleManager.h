#pragma once

class IModuleInterface {
  public:
    virtual ~IModuleInterface() = default;
    virtual void StartupModule() {}
};
#define IMPLEMENT_MODULE(type, name) \
    static_assert(std::is_base_of_v<IModuleInterface, type>); \
    IModuleInterface *standin_module_##name() { return new type(); }
